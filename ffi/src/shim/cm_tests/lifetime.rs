//! Readers with little room, readers who only look, and the end of what requests hang on.

use super::*;

#[test]
fn nothing_is_lost_in_a_short_buffer() {
    let world = World::new();
    let (theirs, ours) = (world.eq(FI_WAIT_NONE), world.eq(FI_WAIT_NONE));
    let pep = world.listener("mem://short", ours);
    let active = world.ep("mem://active", theirs);
    assert_eq!(connect(active, "mem://short", b"hello"), 0);
    let mut room = Room::new();
    for len in [1, 8, 15] {
        for flags in [NONE, FI_PEEK] {
            let too_small = (u32::MAX, -Errno::ETOOSMALL.get());
            assert_eq!(read_into(ours, &mut room, len, flags), too_small);
        }
    }
    assert_eq!(room.0, [0xee; 512], "untouched");
    assert_eq!(read_into(ours, &mut room, 18, NONE), (FI_CONNREQ, 18));
    assert_eq!(&room.0[16..19], b"he\xee", "data is cut, as the manual says");
    let info = Owned(room.entry().info);
    assert_eq!(reject(pep, info.handle(), b""), 0);
    assert_eq!(error(theirs).1, Errno::ECONNREFUSED.get());

    assert_eq!(connect(active, "mem://short", b"hello"), 0);
    let mut event = 0;
    // SAFETY: the queue is open; without a buffer nothing is written.
    let code = unsafe { ((*(*ours).ops).read)(ours, &raw mut event, NULL, 512, FI_PEEK) };
    assert_eq!((code, event), (0, FI_CONNREQ));
    nothing(theirs);
    // SAFETY: as above.
    let code = unsafe { ((*(*ours).ops).read)(ours, &raw mut event, NULL, 512, NONE) };
    assert_eq!((code, event), (0, FI_CONNREQ));
    assert_eq!(error(theirs), (active.cast(), Errno::ECONNREFUSED.get(), b"dropped".to_vec()));
    nothing(ours);
    assert_eq!((close(active), close(pep), close(theirs), close(ours)), (0, 0, 0, 0));
}

#[test]
fn a_look_shows_what_the_read_will_give() {
    let world = World::new();
    let (theirs, ours) = (world.eq(FI_WAIT_NONE), world.eq(FI_WAIT_NONE));
    let pep = world.listener("mem://peek", ours);
    let active = world.ep("mem://active", theirs);
    assert_eq!(connect(active, "mem://peek", b"hello"), 0);
    let mut look = Room::new();
    assert_eq!(read_into(ours, &mut look, 512, FI_PEEK), (FI_CONNREQ, 21));
    let seen = look.entry().info;
    assert_eq!(read_into(ours, &mut look, 512, FI_PEEK), (FI_CONNREQ, 21));
    assert_eq!(look.entry().info, seen);
    let request = read(ours, FI_CONNREQ);
    assert_eq!(request.info.0, seen);
    assert_eq!(reject(pep, request.info.handle(), b""), 0);
    error(theirs);

    // Whoever is in a hurry uses what the look has shown.
    assert_eq!(connect(active, "mem://peek", b""), 0);
    assert_eq!(read_into(ours, &mut look, 512, FI_PEEK), (FI_CONNREQ, 16));
    let passive = world.try_ep(look.entry().info).expect("endpoint");
    let request = read(ours, FI_CONNREQ);
    assert_eq!(request.info.0, look.entry().info);
    assert_eq!(class(request.info.handle()), FI_CLASS_UNSPEC, "used up");
    assert_eq!(world.try_ep(request.info.0), Err(Errno::EINVAL));
    assert_eq!(close(passive), 0);
    error(theirs);

    // What has only been looked at goes with its event.
    assert_eq!(connect(active, "mem://peek", b""), 0);
    assert_eq!(read_into(ours, &mut look, 512, FI_PEEK), (FI_CONNREQ, 16));
    // SAFETY: the event is still queued, so its info is whole.
    let handle = unsafe { (*look.entry().info).handle };
    assert_eq!(class(handle), FI_CLASS_CONNREQ);
    assert_eq!(close(pep), 0);
    assert_eq!(class(handle), FI_CLASS_UNSPEC);
    assert_eq!(error(theirs).2, b"dropped");
    nothing(ours);
    assert_eq!((close(active), close(theirs), close(ours)), (0, 0, 0));
}

#[test]
fn requests_outlive_their_listener_but_not_their_queue() {
    let world = World::new();
    let (theirs, ours) = (world.eq(FI_WAIT_NONE), world.eq(FI_WAIT_NONE));
    let pep = world.listener("mem://end", ours);
    let actives = [(); 4].map(|()| world.ep("mem://active", theirs));
    for active in actives {
        assert_eq!(connect(active, "mem://end", b""), 0);
    }
    let (accepted, kept) = (read(ours, FI_CONNREQ), read(ours, FI_CONNREQ));
    assert_eq!(close(ours), -Errno::EBUSY.get());
    assert_eq!(close(world.fabric), -Errno::EBUSY.get());
    assert_eq!(close(pep), 0);
    assert_eq!(close(pep), EINVAL);
    assert_eq!(reject(pep, kept.info.handle(), b""), EINVAL, "nobody is left to do it");
    for active in &actives[2..] {
        assert_eq!(error(theirs).0, active.cast(), "unread requests are refused");
    }
    nothing(ours);
    nothing(theirs);

    let passive = world.try_ep(accepted.info.0).expect("endpoint");
    assert_eq!((bind(passive, ours, NONE), accept(passive, b"")), (0, 0));
    assert_eq!(read(theirs, FI_CONNECTED).object, actives[0].cast());
    assert_eq!(close(passive), 0, "with an event unread");
    nothing(ours);
    assert_eq!(read(theirs, FI_SHUTDOWN).object, actives[0].cast());

    assert_eq!(close(ours), 0);
    assert_eq!(error(theirs).0, actives[1].cast());
    assert_eq!(class(kept.info.handle()), FI_CLASS_UNSPEC);
    assert_eq!(world.try_ep(kept.info.0), Err(Errno::EINVAL));
    for active in actives {
        assert_eq!(close(active), 0);
    }
    assert_eq!(close(theirs), 0);
}

#[test]
fn the_descriptor_of_a_queue_tells_of_requests() {
    let world = World::new();
    let (theirs, ours) = (world.eq(FI_WAIT_UNSPEC), world.eq(FI_WAIT_FD));
    let mut fd: c_int = -1;
    assert_eq!(control(ours, FI_GETWAIT, &raw mut fd), 0);
    let readable = || {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    };
    let trywait = || {
        let mut fids = [ours.cast::<fid>()];
        // SAFETY: the fabric and the queue are open.
        unsafe { ((*(*world.fabric).ops).trywait)(world.fabric, fids.as_mut_ptr(), 1) }
    };
    let pep = world.listener("mem://wait", ours);
    let active = world.ep("mem://active", theirs);
    assert_eq!((trywait(), readable()), (0, false));
    assert_eq!(connect(active, "mem://wait", b""), 0);
    assert!(readable());
    assert_eq!((trywait(), readable()), (EAGAIN, true));
    let (mut event, mut room) = (0, Room::new());
    let (number, buf) = (&raw mut event, room.0.as_mut_ptr().cast());
    // SAFETY: the queue is open, the buffer of this length.
    unsafe {
        let sread = |len| ((*(*ours).ops).sread)(ours, number, buf, len, -1, 0) as c_int;
        assert_eq!(sread(8), -Errno::ETOOSMALL.get(), "and still there");
        assert_eq!((sread(512), *number), (16, FI_CONNREQ));
    }
    assert_eq!((trywait(), readable()), (0, false));

    let info = Owned(room.entry().info);
    std::thread::scope(|scope| {
        let passive = world.try_ep(info.0).expect("endpoint");
        assert_eq!(bind(passive, ours, NONE), 0);
        let object = passive.expose_provenance();
        let accepting = scope.spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert_eq!(accept(core::ptr::with_exposed_provenance_mut(object), b"up"), 0);
        });
        let (mut event, mut room) = (0, Room::new());
        let buf = room.0.as_mut_ptr().cast();
        // SAFETY: the queue is open, the buffer of this length.
        let code = unsafe { ((*(*theirs).ops).sread)(theirs, &raw mut event, buf, 512, -1, 0) };
        assert_eq!((code, event, &room.0[16..18]), (18, FI_CONNECTED, b"up".as_slice()));
        accepting.join().expect("accepted");
        assert_eq!(read(ours, FI_CONNECTED).object, passive.cast());
        assert_eq!(close(passive), 0);
    });
    assert_eq!((close(active), close(pep), close(theirs), close(ours)), (0, 0, 0, 0));
}
