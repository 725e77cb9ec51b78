//! Messages between two endpoints of one process, waited for by threads.

use std::time::Duration;

use percale::{Error, Local, TagMatch, flags::Flags};

use crate::pair::{Pair, fabrics};

#[test]
fn a_message_arrives_and_both_buffers_come_back() {
    for fabric in fabrics() {
        let Pair { one, two, second, first, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        for size in [0usize, 1, 100, 5000, 70_000, 3 << 20] {
            let text: Vec<u8> = (0..size).map(|i| i as u8).collect();
            let receive = two.recv(Vec::with_capacity(size + 1));
            let send = one.send(second, text.clone());
            let received = std::thread::scope(|scope| {
                let receiver = scope.spawn(|| receive.wait().unwrap());
                assert_eq!(send.wait().unwrap(), text);
                receiver.join().unwrap()
            });
            assert_eq!((received.len, &received.buffer), (size, &text), "{}", fabric.provider());
            assert_eq!(received.peer, Some(first));
        }
    }
}

#[test]
fn one_thread_moves_both_ends() {
    for fabric in fabrics() {
        let domain = fabric.builder::<percale::Any<Local>>().open().unwrap();
        let Pair { one, two, second, .. } = Pair::new(domain).unwrap();
        let mut receive = two.recv(vec![0u8; 4 << 20]);
        let mut send = one.send(second, vec![7u8; 1 << 20]);
        let received = loop {
            match send.wait_timeout(Duration::from_micros(10)) {
                Ok(done) => {
                    done.unwrap();
                    break receive.wait().unwrap();
                }
                Err(pending) => send = pending,
            }
            match receive.test() {
                Ok(done) => {
                    send.wait().unwrap();
                    break done.unwrap();
                }
                Err(pending) => receive = pending,
            }
        };
        assert_eq!(received.buffer, vec![7u8; 1 << 20]);
    }
}

#[test]
fn tags_choose() {
    for fabric in fabrics() {
        let Pair { one, two, second, first, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let seven = two.recv_tagged(7, Vec::<u8>::with_capacity(16));
        let other = two.recv_tagged_from(first, TagMatch::ANY, Vec::<u8>::with_capacity(16));
        one.to(second).tag(9).data(77).send("nine").wait().unwrap();
        one.send_tagged(second, 7, "seven").wait().unwrap();
        let (seven, other) = (seven.wait().unwrap(), other.wait().unwrap());
        assert_eq!((&seven.buffer[..], seven.tag, seven.data), (&b"seven"[..], 7, None));
        assert_eq!((&other.buffer[..], other.tag, other.data), (&b"nine"[..], 9, Some(77)));
    }
}

#[test]
fn a_deadline_gives_the_operation_back() {
    for fabric in fabrics() {
        let Pair { one, two, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let receive = two.recv(Vec::<u8>::with_capacity(16));
        let receive = receive.wait_timeout(Duration::from_millis(30)).unwrap_err();
        let send = one.send(second, "late");
        assert_eq!(receive.wait().unwrap().buffer, b"late");
        send.wait().unwrap();
    }
}

#[test]
fn a_message_that_is_too_long_says_what_is_missing() {
    for fabric in fabrics() {
        let Pair { one, two, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let receive = two.recv(vec![0u8; 4].into_boxed_slice());
        let _send = one.send(second, "truncated");
        let failure = receive.wait().unwrap_err();
        assert!(matches!(failure.error, Error::Truncated { len: 4, missing: 5 }), "{failure:?}");
        assert_eq!(&failure.buffer[..], b"trun");
    }
}

#[test]
fn cancelling_gives_the_buffer_back() {
    for fabric in fabrics() {
        let Pair { two, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let receive = two.recv(vec![1u8; 4]);
        receive.cancel();
        let failure = receive.wait().unwrap_err();
        assert!(matches!(failure.error, Error::Cancelled));
        assert_eq!(failure.buffer, [1; 4]);
    }
}

#[test]
fn closing_ends_what_is_waited_for() {
    for fabric in fabrics() {
        let Pair { two, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let receive = two.recv(vec![1u8; 4]);
        let waiting = std::thread::spawn(move || receive.wait());
        std::thread::sleep(Duration::from_millis(20));
        two.clone().close();
        assert!(matches!(waiting.join().unwrap().unwrap_err().error, Error::Cancelled));
        let late = two.recv(vec![0u8; 4]).wait().unwrap_err();
        assert!(!matches!(late.error, Error::Cancelled), "{late:?}");
    }
}

#[test]
fn a_peer_of_another_domain_is_refused() {
    for fabric in fabrics() {
        let here = Pair::new(fabric.domain().unwrap()).unwrap();
        let there = Pair::new(fabric.domain().unwrap()).unwrap();
        let failure = here.one.send(there.second, "lost").wait().unwrap_err();
        assert_eq!(failure.error.errno(), percale::Errno::EDOMAIN);
        assert_eq!(failure.buffer, "lost");
    }
}

#[test]
fn sends_beyond_the_depth_wait_in_order() {
    for fabric in fabrics() {
        let Pair { one, two, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        const COUNT: u32 = 5000;
        let sends: Vec<_> = (0..COUNT).map(|i| one.send(second, vec![i])).collect();
        let receives: Vec<_> = (0..COUNT).map(|_| two.recv(Vec::<u32>::with_capacity(1))).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| sends.into_iter().for_each(|send| drop(send.wait().unwrap())));
            for (i, receive) in receives.into_iter().enumerate() {
                assert_eq!(receive.wait().unwrap().buffer, [i as u32], "{}", fabric.provider());
            }
        });
    }
}

#[test]
fn one_buffer_takes_many_messages() {
    for fabric in fabrics() {
        let Pair { one, two, first, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let mut messages = two.recv_many(64 * 20, 64).unwrap();
        let sends: Vec<_> = (0..30u64).map(|i| one.send(second, vec![i; 8])).collect();
        let mut kept = Vec::new();
        while let Some(message) = messages.wait_next() {
            let message = message.unwrap();
            assert_eq!(message.peer(), Some(first));
            kept.push(message);
        }
        assert_eq!(kept.len(), 20, "{}", fabric.provider());
        drop(messages);
        let mut rest = two.recv_many(64 * 20, 64).unwrap();
        kept.extend((0..10).map(|_| rest.wait_next().unwrap().unwrap()));
        for (i, message) in kept.iter().enumerate() {
            assert_eq!(message[..], [i as u64; 8].map(u64::to_ne_bytes).concat());
        }
        sends.into_iter().for_each(|send| drop(send.wait().unwrap()));
        assert!(rest.wait_next_timeout(Duration::from_millis(5)).is_none());
        rest.cancel();
        assert!(rest.wait_next().is_none() && rest.wait_next().is_none());
        assert_eq!(two.operations(), 0);
    }
}

#[test]
fn counters_count_and_wake() {
    for fabric in fabrics() {
        let domain = fabric.builder::<percale::Any>().reactor(percale::reactor::AsyncIo).open();
        let domain = domain.unwrap();
        let (messages, bytes) = (domain.counter().unwrap(), domain.byte_counter().unwrap());
        let one = domain.builder().counting(&messages, Flags::SEND).open().unwrap();
        let two = domain.builder().counting(&bytes, Flags::RECV).open().unwrap();
        let peer = domain.peer(&two.address().unwrap()).unwrap();
        let receives: Vec<_> = (0..5).map(|_| two.recv(vec![0u8; 10])).collect();
        assert!(messages.wait_timeout(1, Duration::from_millis(5)).is_none());
        std::thread::scope(|scope| {
            // Two threads that wait for different values.
            let waits = [40, 20].map(|value| {
                let bytes = &bytes;
                scope.spawn(move || bytes.wait_timeout(value, Duration::from_secs(20)))
            });
            for _ in 0..5 {
                one.send(peer, "ten bytes!").wait().unwrap();
            }
            waits.into_iter().for_each(|wait| wait.join().unwrap().unwrap().unwrap());
        });
        smol::block_on(bytes.reached(50)).unwrap();
        smol::block_on(messages.reached(5)).unwrap();
        assert_eq!((messages.value(), bytes.value(), bytes.failures()), (5, 50, 0));
        receives.into_iter().for_each(|receive| drop(receive.wait().unwrap()));
    }
}
