//! The same operations as futures, under tokio, smol and no runtime at all.

use std::time::Duration;

use percale::{
    Any, Domain, Fabric,
    reactor::{AsyncIo, Reactor, Tokio},
};

use crate::pair::{Pair, fabrics};

const MESSAGES: usize = 200;

fn domain(fabric: &Fabric, reactor: impl Reactor) -> Domain {
    fabric.builder::<Any>().reactor(reactor).open().unwrap()
}

/// Messages of growing size, there and back, with their receives posted by the task that needs them.
async fn ping_pong(domain: Domain) {
    let Pair { one, two, first, second, .. } = Pair::new(domain).unwrap();
    let echo = async {
        for _ in 0..MESSAGES {
            let received = two.recv(Vec::<u8>::with_capacity(100_000)).await.unwrap();
            two.send(first, received.buffer).await.unwrap();
        }
    };
    let ask = async {
        for i in 0..MESSAGES {
            let answer = one.recv(Vec::<u8>::with_capacity(100_000));
            one.send(second, vec![i as u8; i * 450]).await.unwrap();
            assert_eq!(answer.await.unwrap().buffer, vec![i as u8; i * 450]);
        }
    };
    smol::future::zip(echo, ask).await;
}

/// Tasks that wait for one another's messages on a common queue, and sleep meanwhile.
async fn many_tasks(domain: Domain, pause: impl AsyncFn()) {
    let Pair { one, two, second, .. } = Pair::new(domain).unwrap();
    let tags: Vec<u64> = (0..50).collect();
    let receives: Vec<_> =
        tags.iter().map(|tag| two.recv_tagged(*tag, Vec::<u64>::with_capacity(1))).collect();
    pause().await;
    let sends: Vec<_> =
        tags.iter().rev().map(|tag| one.send_tagged(second, *tag, vec![*tag])).collect();
    for (tag, receive) in tags.iter().zip(receives) {
        assert_eq!(receive.await.unwrap().buffer, [*tag]);
    }
    for send in sends {
        send.await.unwrap();
    }
}

#[test]
fn under_tokio() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for fabric in fabrics() {
        runtime.block_on(async {
            let limit = Duration::from_secs(30);
            let tasks = async {
                let ours = domain(&fabric, Tokio);
                tokio::spawn(ping_pong(ours.clone())).await.unwrap();
                let pause = async || tokio::time::sleep(Duration::from_millis(20)).await;
                many_tasks(ours, pause).await;
            };
            tokio::time::timeout(limit, tasks).await.expect("in time");
        });
    }
}

#[test]
fn under_smol() {
    for fabric in fabrics() {
        smol::block_on(async {
            let ours = domain(&fabric, AsyncIo);
            smol::spawn(ping_pong(ours.clone())).await;
            let pause = async || {
                smol::Timer::after(Duration::from_millis(20)).await;
            };
            many_tasks(ours, pause).await;
        });
    }
}

#[test]
fn without_a_reactor() {
    for fabric in fabrics() {
        smol::block_on(ping_pong(fabric.domain().unwrap()));
    }
}

#[test]
fn tokios_reactor_is_refused_outside_of_it() {
    let fabric = Fabric::loopback().unwrap();
    assert!(fabric.builder::<Any>().reactor(Tokio).open().is_err());
}

/// A task that is not polled any more does not keep another from its completions.
#[test]
fn a_stalled_task_stalls_nobody() {
    for fabric in fabrics() {
        smol::block_on(async {
            let Pair { one, two, second, .. } = Pair::new(domain(&fabric, AsyncIo)).unwrap();
            let mut stalled = two.recv_tagged(1, Vec::<u8>::with_capacity(8));
            assert!(smol::future::poll_once(&mut stalled).await.is_none());
            let late = smol::spawn(async move {
                smol::Timer::after(Duration::from_millis(20)).await;
                one.send_tagged(second, 2, "second").await.unwrap();
                one.send_tagged(second, 1, "first").await.unwrap();
            });
            let received = two.recv_tagged(2, Vec::<u8>::with_capacity(8)).await.unwrap();
            assert_eq!(received.buffer, b"second");
            late.await;
            assert_eq!(stalled.await.unwrap().buffer, b"first");
        });
    }
}
