use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use reprise_tests::poll::until_true;
use reprise_tests::proxy::Proxy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Far longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(10);
/// Long enough to see that nothing comes.
const A_WHILE: Duration = Duration::from_millis(200);

/// A server that answers each byte with the next one, and tells what it received.
async fn successor() -> Result<(SocketAddr, mpsc::UnboundedReceiver<u8>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                while let Ok(byte) = socket.read_u8().await {
                    if tell.send(byte).is_err() || socket.write_u8(byte + 1).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok((addr, told))
}

async fn ask(socket: &mut TcpStream, byte: u8) -> io::Result<u8> {
    socket.write_u8(byte).await?;
    socket.read_u8().await
}

#[tokio::test]
async fn it_passes_both_ways_and_counts() -> Result<()> {
    let (target, _told) = successor().await?;
    let proxy = Proxy::start(target).await?;
    let mut one = TcpStream::connect(proxy.addr()).await?;
    let mut two = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut one, 1).await?, 2);
    assert_eq!(ask(&mut two, 7).await?, 8);
    assert_eq!((proxy.accepted(), proxy.open()), (2, 2));
    // The end of a connection passes too.
    drop(one);
    until_true("the connection's end", LIMIT, async || proxy.open() == 1).await?;
    assert_eq!(proxy.accepted(), 2);
    Ok(())
}

#[tokio::test]
async fn a_swallowed_answer_was_asked_for_and_comes_late_or_never() -> Result<()> {
    let (target, mut told) = successor().await?;
    let proxy = Proxy::start(target).await?;
    let mut socket = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut socket, 1).await?, 2);
    assert_eq!(told.recv().await, Some(1));

    proxy.swallow_answers();
    socket.write_u8(3).await?;
    assert_eq!(
        timeout(LIMIT, told.recv()).await?,
        Some(3),
        "the server acted"
    );
    until_true("the held answer", LIMIT, async || {
        proxy.held_answer_bytes() == 1
    })
    .await?;
    assert!(
        timeout(A_WHILE, socket.read_u8()).await.is_err(),
        "the answer got through"
    );
    proxy.pass();
    assert_eq!(timeout(LIMIT, socket.read_u8()).await??, 4);

    proxy.swallow_answers();
    socket.write_u8(5).await?;
    assert_eq!(timeout(LIMIT, told.recv()).await?, Some(5));
    until_true("the held answer", LIMIT, async || {
        proxy.held_answer_bytes() == 1
    })
    .await?;
    proxy.cut().await;
    proxy.pass();
    assert!(
        timeout(LIMIT, socket.read_u8()).await?.is_err(),
        "the lost answer came"
    );
    let mut next = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut next, 5).await?, 6);
    Ok(())
}

#[tokio::test]
async fn a_frozen_proxy_passes_nothing_until_it_passes_all() -> Result<()> {
    let (target, mut told) = successor().await?;
    let proxy = Proxy::start(target).await?;
    let mut old = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut old, 1).await?, 2);
    assert_eq!(told.recv().await, Some(1));

    proxy.freeze();
    let mut new = TcpStream::connect(proxy.addr()).await?;
    old.write_u8(3).await?;
    new.write_u8(5).await?;
    assert!(
        timeout(A_WHILE, told.recv()).await.is_err(),
        "a request got through"
    );

    proxy.pass();
    assert_eq!(timeout(LIMIT, old.read_u8()).await??, 4);
    assert_eq!(timeout(LIMIT, new.read_u8()).await??, 6);
    Ok(())
}

#[tokio::test]
async fn cut_ends_what_is_open_and_refuse_what_is_new() -> Result<()> {
    let (target, _told) = successor().await?;
    let proxy = Proxy::start(target).await?;
    let mut first = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut first, 1).await?, 2);
    proxy.cut().await;
    assert_eq!(proxy.open(), 0);
    assert!(timeout(LIMIT, ask(&mut first, 1)).await?.is_err());

    let mut second = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut second, 1).await?, 2);
    proxy.refuse();
    let mut refused = TcpStream::connect(proxy.addr()).await?;
    assert!(timeout(LIMIT, ask(&mut refused, 1)).await?.is_err());
    assert_eq!(ask(&mut second, 3).await?, 4, "open connections go on");
    assert_eq!((proxy.accepted(), proxy.open()), (3, 1));
    Ok(())
}

#[tokio::test]
async fn new_connections_go_where_it_was_aimed_last() -> Result<()> {
    let (one, mut told_one) = successor().await?;
    let (two, mut told_two) = successor().await?;
    let proxy = Proxy::start(one).await?;
    let mut first = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut first, 1).await?, 2);
    proxy.aim(two);
    let mut second = TcpStream::connect(proxy.addr()).await?;
    assert_eq!(ask(&mut second, 3).await?, 4);
    assert_eq!(ask(&mut first, 5).await?, 6, "open connections stay");
    assert_eq!(
        (told_one.recv().await, told_one.recv().await),
        (Some(1), Some(5))
    );
    assert_eq!(told_two.recv().await, Some(3));
    Ok(())
}

#[tokio::test]
async fn its_end_closes_port_and_connections() -> Result<()> {
    let (target, _told) = successor().await?;
    let proxy = Proxy::start(target).await?;
    let addr = proxy.addr();
    let mut socket = TcpStream::connect(addr).await?;
    assert_eq!(ask(&mut socket, 1).await?, 2);
    drop(proxy);
    assert!(
        timeout(LIMIT, socket.read_u8())
            .await
            .context("still open")?
            .is_err()
    );
    until_true("the port to close", LIMIT, async || {
        TcpStream::connect(addr).await.is_err()
    })
    .await
}
