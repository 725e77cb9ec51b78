//! Operations on borrowed memory.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use percale::Errno;

use crate::pair::{Pair, fabrics};

#[test]
fn a_scope_takes_back_what_nobody_waited_for() {
    for fabric in fabrics() {
        let Pair { one, two, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let (mut first, mut rest) = ([0u8; 8], [0u8; 8]);
        let text = *b"borrowed";
        two.scope(|theirs| {
            let receive = theirs.recv(&mut first);
            let _left = theirs.recv(&mut rest);
            one.scope(|ours| ours.send(second, &text).wait().unwrap());
            let receive = match receive.wait_timeout(Duration::from_secs(10)) {
                Ok(done) => done.unwrap(),
                Err(late) => panic!("{late:?}"),
            };
            assert_eq!(receive, 8);
        });
        assert_eq!((first, rest, two.operations()), (text, [0; 8], 0));
        // What was left takes no later message.
        let next = two.recv(vec![0u8; 8]);
        one.send(second, "for next").wait().unwrap();
        assert_eq!(next.wait().unwrap().buffer, b"for next");
        assert_eq!(rest, [0; 8]);
    }
}

#[test]
fn a_panic_leaves_no_operation_behind() {
    for fabric in fabrics() {
        let Pair { two, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let mut room = [0u8; 8];
        let panics = || {
            two.scope(|scope| {
                // Forgotten, since it has nothing to drop.
                let _ = scope.recv(&mut room);
                panic!("in the scope");
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(two.operations(), 0);
    }
}

#[test]
fn tagged_messages_and_errors() {
    for fabric in fabrics() {
        let Pair { one, two, second, .. } = Pair::new(fabric.domain().unwrap()).unwrap();
        let other = Pair::new(fabric.domain().unwrap()).unwrap();
        let (text, mut room) = (*b"tagged", [0u8; 3]);
        two.scope(|scope| {
            let receive = scope.recv_tagged(5, &mut room);
            let lost = scope.send(other.first, &text).wait().unwrap_err();
            assert_eq!(lost.errno(), Errno::EDOMAIN);
            one.scope(|ours| drop(ours.send_tagged(second, 5, &text).wait()));
            assert_eq!(receive.wait().unwrap_err().errno(), Errno::ETRUNC);
        });
        assert_eq!(&room, b"tag");
    }
}
