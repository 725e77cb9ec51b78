//! Requests from the event to the answer.

use super::*;

#[test]
fn a_request_becomes_a_connection() {
    let world = World::new();
    let (theirs, ours) = (world.eq(FI_WAIT_NONE), world.eq(FI_WAIT_NONE));
    let pep = world.listener("mem://accept", ours);
    let active = world.ep("mem://active", theirs);
    assert_eq!(connect(active, "mem://accept", b"hello"), 0);

    let request = read(ours, FI_CONNREQ);
    assert_eq!(request.object, pep.cast());
    assert_eq!(request.data, b"hello");
    assert_eq!(request.info.addresses(), (&*text("mem://accept"), &*text("mem://active")));
    let handle = request.info.handle();
    assert_eq!(class(handle), FI_CLASS_CONNREQ);
    // SAFETY: a whole info.
    unsafe {
        let fabric = &*(*request.info.0).fabric_attr;
        assert_eq!(fabric.api_version, Version::new(2, 6).0);
        assert_eq!(fabric.fabric, world.fabric);
        assert_eq!((*request.info.0).next, core::ptr::null_mut());
    }
    nothing(ours);

    let passive = world.try_ep(request.info.0).expect("endpoint");
    assert_eq!(class(handle), FI_CLASS_UNSPEC, "used up");
    assert_eq!(bind(passive, ours, NONE), 0);
    assert_eq!(accept(passive, b"welcome"), 0);
    assert_eq!(accept(passive, b"welcome"), EINVAL, "accepted twice");
    let connected = read(ours, FI_CONNECTED);
    assert_eq!((connected.object, &*connected.data), (passive.cast(), b"".as_slice()));
    assert!(connected.info.0.is_null());
    let connected = read(theirs, FI_CONNECTED);
    assert_eq!((connected.object, &*connected.data), (active.cast(), b"welcome".as_slice()));

    let (mut peer, mut len) = ([0u8; 32], 32usize);
    // SAFETY: an open endpoint, and room of the length named.
    let mut getpeer = |len: &mut usize| unsafe {
        ((*(*passive).cm).getpeer)(passive, peer.as_mut_ptr().cast(), &raw mut *len)
    };
    assert_eq!(getpeer(&mut len), 0);
    let mut short = 3;
    assert_eq!((getpeer(&mut short), short), (-Errno::ETOOSMALL.get(), len));
    assert_eq!(&peer[..len], text("mem://active"));

    assert_eq!(shutdown(active, 1), -Errno::EBADFLAGS.get());
    assert_eq!(shutdown(active, 0), 0);
    assert_eq!(read(ours, FI_SHUTDOWN).object, passive.cast());
    for object in [active.cast::<fid>(), passive.cast(), pep.cast(), theirs.cast(), ours.cast()] {
        assert_eq!(close(object), 0);
    }
}

#[test]
fn a_rejection_carries_its_reasons() {
    for version in [Version::new(2, 6), Version::new(1, 4)] {
        let world = World::of(version);
        let (theirs, ours) = (world.eq(FI_WAIT_NONE), world.eq(FI_WAIT_NONE));
        let name = format!("mem://reject-{version}");
        let pep = world.listener(&name, ours);
        let other = world.listener(&format!("{name}-other"), ours);
        let active = world.ep("mem://active", theirs);
        assert_eq!(connect(active, &name, b""), 0);
        let request = read(ours, FI_CONNREQ);
        let handle = request.info.handle();

        assert_eq!(reject(other, handle, b"no"), EINVAL, "not its own request");
        assert_eq!(reject(pep, core::ptr::null_mut(), b"no"), EINVAL);
        assert_eq!(reject(pep, core::ptr::dangling_mut(), b"no"), EINVAL);
        assert_eq!(reject(pep, handle, &[0; 257]), EINVAL);
        assert_eq!(read_into(theirs, &mut Room::new(), 512, NONE).1, EAGAIN);
        assert_eq!(reject(pep, handle, b"no room"), 0);
        assert_eq!(reject(pep, handle, b"no room"), EINVAL, "rejected twice");
        assert_eq!(world.try_ep(request.info.0), Err(Errno::EINVAL), "rejected");

        let eavail = -Errno::EAVAIL.get();
        assert_eq!(read_into(theirs, &mut Room::new(), 512, NONE).1, eavail);
        let refused = (active.cast::<fid>(), Errno::ECONNREFUSED.get(), b"no room".to_vec());
        if version >= Version::new(1, 5) {
            own_buffer(theirs);
            assert_eq!(connect(active, &name, b""), 0);
            assert_eq!(reject(pep, read(ours, FI_CONNREQ).info.handle(), b"no room"), 0);
        }
        assert_eq!(error(theirs), refused);
        nothing(theirs);
        for object in [active.cast::<fid>(), pep.cast(), other.cast(), theirs.cast(), ours.cast()] {
            assert_eq!(close(object), 0);
        }
    }
}

/// Takes the error with a buffer of the reader's, which is filled as far as it goes.
fn own_buffer(eq: *mut fid_eq) {
    let mut own = [0u8; 4];
    let mut entry = fi_eq_err_entry::zeroed();
    (entry.err_data, entry.err_data_size) = (own.as_mut_ptr().cast(), own.len());
    // SAFETY: the queue is open, the entry whole, its buffer of the length named.
    let code = unsafe { ((*(*eq).ops).readerr)(eq, &raw mut entry, NONE) };
    assert_eq!(code, size_of::<fi_eq_err_entry>() as isize);
    assert_eq!((entry.context, entry.err_data_size), (context(0xac), 4));
    assert_eq!(&own, b"no r");
}

#[test]
fn nobody_listens() {
    let world = World::new();
    let eq = world.eq(FI_WAIT_NONE);
    let active = world.ep("mem://alone", eq);
    assert_eq!(connect(active, "mem://nobody", b""), 0);
    assert_eq!(error(eq), (active.cast(), Errno::ECONNREFUSED.get(), Vec::new()));
    assert_eq!((close(active), close(eq)), (0, 0));
}

#[test]
fn a_failed_open_leaves_the_request() {
    let world = World::new();
    let (theirs, ours) = (world.eq(FI_WAIT_NONE), world.eq(FI_WAIT_NONE));
    let pep = world.listener("mem://again", ours);
    let active = world.ep("mem://active", theirs);
    assert_eq!(connect(active, "mem://again", b""), 0);
    let request = read(ours, FI_CONNREQ);
    // SAFETY: a whole info.
    unsafe { (*request.info.0).caps = FI_MULTICAST };
    assert_eq!(world.try_ep(request.info.0), Err(Errno::EOPNOTSUPP));
    // SAFETY: as above.
    unsafe { (*request.info.0).caps = 0 };
    let passive = world.try_ep(request.info.0).expect("endpoint");
    assert_eq!((bind(passive, ours, NONE), accept(passive, b"")), (0, 0));
    for object in [active.cast::<fid>(), passive.cast(), pep.cast(), theirs.cast(), ours.cast()] {
        assert_eq!(close(object), 0);
    }
}

#[test]
fn an_endpoint_that_never_accepts_refuses_at_its_close() {
    let world = World::new();
    let (theirs, ours) = (world.eq(FI_WAIT_NONE), world.eq(FI_WAIT_NONE));
    let pep = world.listener("mem://never", ours);
    let active = world.ep("mem://active", theirs);
    assert_eq!(connect(active, "mem://never", b""), 0);
    let passive = world.try_ep(read(ours, FI_CONNREQ).info.0).expect("endpoint");
    nothing(theirs);
    assert_eq!(close(passive), 0);
    assert_eq!(error(theirs).1, Errno::ECONNREFUSED.get());
    assert_eq!((close(active), close(pep), close(theirs), close(ours)), (0, 0, 0, 0));
}

#[test]
fn handles_that_are_none_are_refused_unseen() {
    let world = World::new();
    let eq = world.eq(FI_WAIT_NONE);
    let open = |info: &Owned| world.try_ep(info.0).err();
    let nowhere = core::ptr::dangling_mut::<fid>();
    let unreadable = core::ptr::without_provenance_mut::<fid>(usize::MAX & !0xfff);
    for handle in [nowhere, unreadable, eq.cast(), world.fabric.cast()] {
        let info = Owned::new("mem://none").with_handle(handle);
        assert_eq!(open(&info), Some(Errno::EINVAL));
        assert_eq!(info.handle(), handle);
    }
    assert_eq!(close(eq), 0);
}

#[test]
fn a_passive_endpoint_gives_its_address_up() {
    let world = World::new();
    let pep = world.pep("mem://reserved");
    let info = Owned::new("mem://other").with_handle(pep);
    // SAFETY: a whole info.
    unsafe { (*info.0).caps = FI_MULTICAST };
    assert_eq!(world.try_ep(info.0), Err(Errno::EOPNOTSUPP));
    // SAFETY: as above.
    unsafe { (*info.0).caps = 0 };
    let ep = world.try_ep(info.0).expect("endpoint");
    let (mut name, mut len) = ([0u8; 32], 32usize);
    // SAFETY: an open endpoint, and room of the length named.
    let code = unsafe { ((*(*ep).cm).getname)(ep.cast(), name.as_mut_ptr().cast(), &raw mut len) };
    assert_eq!((code, &name[..len]), (0, &*text("mem://reserved")));
    assert_eq!(world.try_ep(info.0), Err(Errno::EINVAL), "given up once");
    assert_eq!((close(pep), close(ep)), (0, 0));
    assert_eq!(world.try_ep(info.0), Err(Errno::EINVAL), "closed");
}
