//! Ports for servers that cannot be told to choose one and say which.
//!
//! Between the choice and its use somebody else may take the port, so whoever
//! uses one tries again with another.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;

use anyhow::{Result, bail};

/// Ports that need no privilege and that few services are known for.
const FIRST: u16 = 10_240;
const TRIES: usize = 100;

/// A port of 127.0.0.1 that was free a moment ago.
///
/// It lies below the range that the kernel takes the ports of outgoing
/// connections from. A server that is killed and started again on its port would
/// else lose it now and then to a client that tries to reach it meanwhile.
///
/// # Errors
/// When no free port was found.
pub fn free() -> Result<u16> {
    let range = outside_the_ephemeral_range().filter(|range| range.len() > TRIES);
    for _ in 0..TRIES {
        // Port 0 lets the kernel choose, where it leaves no range to choose from.
        let port = range.clone().map_or(0, rand::random_range);
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return Ok(listener.local_addr()?.port());
        }
    }
    bail!("none of {TRIES} ports tried on 127.0.0.1 is free")
}

fn outside_the_ephemeral_range() -> Option<Range<u16>> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let first_ephemeral = text.split_whitespace().next()?.parse().ok()?;
    Some(FIRST..first_ephemeral)
}
