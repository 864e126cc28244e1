//! Callers that wait for a record to change. They hold no connection of the database.
//!
//! Each waited-for record has a room. News reach it from this server's own commits, from
//! one statement every 250 ms that asks for the revisions of all waited-for records, and
//! from the ends of leases. After news the record is read once for all who wait there; a
//! caller goes back to the store only where something is to be written.
//!
//! It does not know what callers wait for, nor how a record is decided on.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rand::RngExt;
use reprise_domain::{Record, RecordId, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::status::Causes;
use crate::store::{self, OnChange, Store};

/// How often other servers' changes are looked for.
const POLL: Duration = Duration::from_millis(250);
/// Records asked for in one statement.
const POLL_IDS_MAX: usize = 4096;

/// Bounds of waiting. Over them callers are answered at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitLimits {
    /// Callers that wait for one record.
    pub per_record_max: usize,
    /// Callers of one tenant that wait.
    pub per_tenant_max: usize,
}

impl Default for WaitLimits {
    fn default() -> Self {
        Self {
            per_record_max: 1000,
            per_tenant_max: 10_000,
        }
    }
}

/// All rooms of this server. Made before the store, which tells it about changes.
#[derive(Clone, Default)]
pub struct Rooms(Arc<Inner>);

#[derive(Default)]
struct Inner {
    limits: WaitLimits,
    house: Mutex<House>,
}

#[derive(Default)]
struct House {
    rooms: HashMap<RecordId, Occupied>,
    /// Seats taken by each tenant.
    seats: HashMap<String, usize>,
}

struct Occupied {
    room: Arc<Room>,
    guests: usize,
    seats: usize,
}

/// One record's waiting room.
struct Room {
    /// Counts news.
    news: watch::Sender<u64>,
    /// As last seen, and with how much news; read by one for all.
    seen: tokio::sync::Mutex<Option<(u64, Seen)>>,
    /// Who tries for a freed record: one at a time, so that the others need not.
    turn: tokio::sync::Mutex<()>,
    /// Revision as last read; 0 when never, or when there was no record.
    revision: AtomicU64,
}

/// A record and the store's clock beside it; none when there is no such record.
pub(crate) type Seen = Option<Arc<(Record, Timestamp)>>;

impl Rooms {
    /// Rooms within `limits`.
    #[must_use]
    pub fn new(limits: WaitLimits) -> Self {
        Self(Arc::new(Inner {
            limits,
            house: Mutex::default(),
        }))
    }

    /// What the store is to call for every change.
    #[must_use]
    pub fn on_change(&self) -> OnChange {
        let rooms = self.clone();
        Arc::new(move |id| rooms.tell(id))
    }

    fn house(&self) -> MutexGuard<'_, House> {
        self.0.house.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, id: &RecordId) {
        if let Some(occupied) = self.house().rooms.get(id) {
            occupied.room.news.send_modify(|count| *count += 1);
        }
    }

    /// Enters a record's room: from now on no news is missed.
    pub(crate) fn enter(&self, id: RecordId) -> Guest {
        let mut house = self.house();
        let occupied = house.rooms.entry(id).or_insert_with(|| Occupied {
            room: Arc::new(Room {
                news: watch::Sender::new(0),
                seen: tokio::sync::Mutex::default(),
                turn: tokio::sync::Mutex::default(),
                revision: 0.into(),
            }),
            guests: 0,
            seats: 0,
        });
        occupied.guests += 1;
        let news = occupied.room.news.subscribe();
        let known = *news.borrow();
        Guest {
            rooms: self.clone(),
            id,
            room: Arc::clone(&occupied.room),
            news,
            known,
            seat: None,
        }
    }

    /// Looks for changes that other servers made, until `closing`.
    pub(crate) async fn watch(self, store: Arc<dyn Store>, closing: CancellationToken) {
        let mut reachable = true;
        loop {
            let pause = POLL.mul_f64(rand::rng().random_range(0.8..=1.0));
            tokio::select! {
                () = closing.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            match self.poll(store.as_ref()).await {
                Ok(()) => reachable = true,
                Err(error) if reachable => {
                    reachable = false;
                    tracing::warn!(causes = %Causes(&error), "waited-for records cannot be looked at; waiting goes on");
                }
                // Said once, until it is over.
                Err(_) => {}
            }
        }
    }

    async fn poll(&self, store: &dyn Store) -> Result<(), store::Error> {
        let ids: Vec<RecordId> = {
            let house = self.house();
            let waited_for = house.rooms.iter().filter(|(_, room)| room.seats > 0);
            waited_for.map(|(id, _)| *id).collect()
        };
        for ids in ids.chunks(POLL_IDS_MAX) {
            let found = store.revisions(ids.to_vec()).await?;
            let found: HashMap<RecordId, u64> = found.into_iter().collect();
            for id in ids {
                self.compare(id, found.get(id).copied().unwrap_or(0));
            }
        }
        Ok(())
    }

    fn compare(&self, id: &RecordId, revision: u64) {
        if let Some(occupied) = self.house().rooms.get(id)
            && occupied.room.revision.swap(revision, Ordering::Relaxed) != revision
        {
            occupied.room.news.send_modify(|count| *count += 1);
        }
    }
}

/// Somebody in a record's room. Leaves it when dropped.
pub(crate) struct Guest {
    rooms: Rooms,
    id: RecordId,
    room: Arc<Room>,
    news: watch::Receiver<u64>,
    /// The news that were taken into account.
    known: u64,
    /// The tenant on whose account this one sits.
    seat: Option<String>,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Something may have changed.
    News,
    /// It is time to answer, whatever the state is.
    Over,
}

impl Guest {
    /// The record that this is about.
    pub(crate) fn id(&self) -> RecordId {
        self.id
    }

    /// Takes a seat for `tenant`; false when all are taken.
    pub(crate) fn sit(&mut self, tenant: &str) -> bool {
        let limits = self.rooms.0.limits;
        let mut house = self.rooms.house();
        let house = &mut *house;
        let taken = house.seats.get(tenant).copied().unwrap_or(0);
        let Some(occupied) = house.rooms.get_mut(&self.id) else {
            return false;
        };
        if occupied.seats >= limits.per_record_max || taken >= limits.per_tenant_max {
            return false;
        }
        occupied.seats += 1;
        house.seats.insert(tenant.to_owned(), taken + 1);
        self.seat = Some(tenant.to_owned());
        true
    }

    /// Waits for news, for the moment at which the record reads differently by itself,
    /// and for the end: of the wait, or of the server.
    pub(crate) async fn wait(
        &mut self,
        turns_at: Option<Instant>,
        until: Instant,
        closing: &CancellationToken,
    ) -> Woken {
        let known = self.known;
        let turns_at = turns_at.unwrap_or(until);
        let turned = tokio::select! {
            biased;
            () = closing.cancelled() => return Woken::Over,
            // The room holds the sender: news do not end before their guests.
            _ = self.news.wait_for(|count| *count > known) => false,
            () = tokio::time::sleep_until(turns_at.into()), if turns_at < until => true,
            () = tokio::time::sleep_until(until.into()) => return Woken::Over,
        };
        if turned {
            self.tell_all();
        }
        self.known = *self.news.borrow();
        Woken::News
    }

    /// What is known here is too old. Whoever finds out first says it for all.
    pub(crate) fn tell_all(&self) {
        self.room.news.send_if_modified(|count| {
            let first = *count == self.known;
            *count += u64::from(first);
            first
        });
    }

    /// The record, no older than the news that are known. One reads for all.
    pub(crate) async fn look(
        &mut self,
        read: impl AsyncFnOnce() -> Result<Option<(Record, Timestamp)>, store::Error>,
    ) -> Result<Seen, store::Error> {
        let mut last = self.room.seen.lock().await;
        if let Some((news, seen)) = &*last
            && *news >= self.known
        {
            return Ok(seen.clone());
        }
        let news = *self.room.news.borrow();
        let seen = read().await?.map(Arc::new);
        let revision = seen.as_ref().map_or(0, |seen| seen.0.revision);
        self.room.revision.store(revision, Ordering::Relaxed);
        *last = Some((news, seen.clone()));
        Ok(seen)
    }

    /// Waits for one's turn to try for the freed record. None when there were news
    /// meanwhile, which are to be looked at first.
    pub(crate) async fn turn(&self) -> Option<impl Drop + Send + '_> {
        let turn = self.room.turn.lock().await;
        (*self.room.news.borrow() == self.known).then_some(turn)
    }

    /// The record was seen at `revision` when it was not looked at.
    pub(crate) fn seen(&self, revision: u64) {
        self.room.revision.store(revision, Ordering::Relaxed);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut house = self.rooms.house();
        let house = &mut *house;
        let seated = self.seat.take();
        if let Entry::Occupied(mut occupied) = house.rooms.entry(self.id) {
            let room = occupied.get_mut();
            room.guests -= 1;
            room.seats -= usize::from(seated.is_some());
            if room.guests == 0 {
                occupied.remove();
            }
        }
        if let Some(tenant) = seated
            && let Entry::Occupied(mut seats) = house.seats.entry(tenant)
        {
            *seats.get_mut() -= 1;
            if *seats.get() == 0 {
                seats.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> RecordId {
        RecordId([byte; 32])
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[tokio::test]
    async fn news_between_entering_and_waiting_are_not_missed() {
        let rooms = Rooms::default();
        let mut guest = rooms.enter(id(1));
        (rooms.on_change())(&id(1));
        let closing = CancellationToken::new();
        assert_eq!(guest.wait(None, soon(), &closing).await, Woken::News);
        let over = guest.wait(None, Instant::now(), &closing).await;
        assert_eq!(over, Woken::Over, "the same news do not wake twice");
    }

    #[tokio::test]
    async fn one_reads_for_all_who_know_the_same_news() {
        let rooms = Rooms::default();
        let mut guests: Vec<Guest> = (0..3).map(|_| rooms.enter(id(1))).collect();
        let mut reads = 0;
        for guest in &mut guests {
            let seen = guest.look(async || {
                reads += 1;
                Ok(None)
            });
            assert!(seen.await.is_ok());
        }
        assert_eq!(reads, 1);
        (rooms.on_change())(&id(1));
        let closing = CancellationToken::new();
        guests[0].wait(None, soon(), &closing).await;
        let seen = guests[0].look(async || {
            reads += 1;
            Ok(None)
        });
        assert!(seen.await.is_ok());
        assert_eq!(reads, 2, "news make the last look too old");
    }

    #[tokio::test]
    async fn a_moment_that_comes_for_all_is_news_once() {
        let rooms = Rooms::default();
        let (mut one, mut other) = (rooms.enter(id(1)), rooms.enter(id(1)));
        let closing = CancellationToken::new();
        let now = Some(Instant::now());
        assert_eq!(one.wait(now, soon(), &closing).await, Woken::News);
        assert_eq!(other.wait(now, soon(), &closing).await, Woken::News);
        assert_eq!((one.known, other.known), (1, 1));
    }

    #[tokio::test]
    async fn after_news_a_turn_is_not_taken() {
        let rooms = Rooms::default();
        let guest = rooms.enter(id(1));
        assert!(guest.turn().await.is_some());
        (rooms.on_change())(&id(1));
        assert!(guest.turn().await.is_none());
    }

    #[test]
    fn seats_are_bounded_by_record_and_by_tenant_and_come_back() {
        let rooms = Rooms::new(WaitLimits {
            per_record_max: 2,
            per_tenant_max: 3,
        });
        let sit = |record, tenant: &str| {
            let mut guest = rooms.enter(id(record));
            guest.sit(tenant).then_some(guest)
        };
        let taken: Vec<_> = [1, 1, 2].into_iter().map(|r| sit(r, "t")).collect();
        assert!(taken.iter().all(Option::is_some));
        assert!(sit(1, "other").is_none(), "the record's seats are taken");
        assert!(sit(2, "t").is_none(), "the tenant's seats are taken");
        assert!(sit(2, "other").is_some());
        drop(taken);
        assert!(sit(1, "t").is_some());
        assert!(rooms.house().rooms.is_empty() && rooms.house().seats.is_empty());
    }
}
