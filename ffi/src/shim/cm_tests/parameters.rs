//! What is checked before a provider is asked.

use super::*;
use crate::abi::fid::fi_ops;

#[test]
fn addresses_and_data() {
    let world = World::new();
    let (theirs, ours) = (world.eq(FI_WAIT_NONE), world.eq(FI_WAIT_NONE));
    let pep = world.listener("mem://data", ours);
    let active = world.ep("mem://active", theirs);
    let peer = text("mem://data");
    let connect_raw = |addr: *const u8, data: *const u8, len| {
        // SAFETY: an open endpoint; an address with its end; data of the length named or null.
        unsafe { ((*(*active).cm).connect)(active, addr.cast(), data.cast(), len) }
    };
    let null = core::ptr::null();
    let data = [7u8; 257];
    assert_eq!(connect_raw(null, null, 0), EINVAL);
    assert_eq!(connect_raw([b'x'; 256].as_ptr(), null, 0), EINVAL, "a text without end");
    assert_eq!(connect_raw(peer.as_ptr(), null, 1), EINVAL);
    assert_eq!(connect_raw(peer.as_ptr(), null, usize::MAX), EINVAL);
    assert_eq!(connect_raw(peer.as_ptr(), data.as_ptr(), 257), EINVAL);
    nothing(ours);
    assert_eq!(connect_raw(peer.as_ptr(), data.as_ptr(), 256), 0);
    let request = read(ours, FI_CONNREQ);
    assert_eq!(request.data, data[..256]);

    assert_eq!(accept(active, b""), EINVAL, "nobody asked for it");
    let passive = world.try_ep(request.info.0).expect("endpoint");
    assert_eq!(accept(passive, &data), EINVAL);
    assert_eq!(accept(passive, &data[..256]), 0);
    assert_eq!(read(theirs, FI_CONNECTED).data, data[..256]);
    assert_eq!((close(active), close(passive), close(pep)), (0, 0, 0));
    assert_eq!(connect_raw(peer.as_ptr(), null, 0), EINVAL, "closed");
    assert_eq!((accept(active, b""), shutdown(active, 0)), (EINVAL, EINVAL));
    assert_eq!((close(theirs), close(ours)), (0, 0));
}

#[test]
fn passive_endpoints() {
    let world = World::new();
    let eq = world.eq(FI_WAIT_NONE);
    let mut pep = core::ptr::null_mut();
    // SAFETY: the fabric is open; nulls are refused.
    unsafe {
        let open = (*(*world.fabric).ops).passive_ep;
        let none = core::ptr::null_mut();
        assert_eq!(open(world.fabric, none, &raw mut pep, NULL), EINVAL);
        assert_eq!(
            open(world.fabric, Owned::new("mem://p").0, core::ptr::null_mut(), NULL),
            EINVAL
        );
    }
    let pep = world.pep("mem://p");
    assert_eq!(class(pep), FI_CLASS_PEP);
    // SAFETY: an open passive endpoint.
    let head = unsafe { *pep };
    assert_eq!(head.fid.context, context(0xbe));
    assert_eq!(listen(pep), -Errno::ENOEQ.get());
    assert_eq!(bind(pep, eq, FI_SEND), -Errno::EBADFLAGS.get());
    assert_eq!(bind(pep, pep, NONE), EINVAL);
    assert_eq!(bind(pep, core::ptr::null_mut::<fid>(), NONE), EINVAL);
    assert_eq!(bind(pep, eq, NONE), 0);

    let mut backlog: c_int = 5;
    assert_eq!(control(pep, FI_BACKLOG, &raw mut backlog), 0);
    backlog = -1;
    assert_eq!(control(pep, FI_BACKLOG, &raw mut backlog), EINVAL);
    assert_eq!(control(pep, FI_BACKLOG, core::ptr::null_mut::<c_int>()), EINVAL);
    assert_eq!(control(pep, FI_ENABLE, core::ptr::null_mut::<c_int>()), -Errno::ENOSYS.get());

    options(pep);
    let (name, mut len, mut room) = (text("mem://q"), 0usize, [0u8; 16]);
    // SAFETY: an open passive endpoint, with addresses and room of the lengths named.
    unsafe {
        let cm = &*head.cm;
        assert_eq!((cm.setname)(pep.cast(), name.as_ptr().cast_mut().cast(), name.len()), 0);
        assert_eq!((cm.getname)(pep.cast(), NULL, &raw mut len), -Errno::ETOOSMALL.get());
        assert_eq!((cm.getname)(pep.cast(), room.as_mut_ptr().cast(), &raw mut len), 0);
        assert_eq!(&room[..len], name);
        // What only active endpoints do.
        let ep = pep.cast::<fid_ep>();
        let unsupported = -Errno::ENOSYS.get();
        assert_eq!((cm.connect)(ep, name.as_ptr().cast(), NULL, 0), unsupported);
        assert_eq!((cm.accept)(ep, NULL, 0), unsupported);
        assert_eq!((cm.shutdown)(ep, 0), unsupported);
        assert_eq!((cm.getpeer)(ep, room.as_mut_ptr().cast(), &raw mut len), unsupported);
    }
    assert_eq!((listen(pep), listen(pep)), (0, EINVAL));
    assert_eq!(close(eq), -Errno::EBUSY.get());
    assert_eq!((close(pep), close(eq)), (0, 0));
    assert_eq!((listen(pep), control(pep, FI_BACKLOG, &raw mut backlog)), (EINVAL, EINVAL));
    // SAFETY: closed objects keep whole tables.
    assert_eq!(unsafe { (*(*pep).fid.ops).size }, size_of::<fi_ops>());
}

fn options(pep: *mut fid_pep) {
    let (mut size, mut len) = (0usize, 4usize);
    let (value, room) = ((&raw mut size).cast::<c_void>(), &raw mut len);
    // SAFETY: an open passive endpoint, and values of the lengths named.
    unsafe {
        let ops = &*(*pep).ops;
        let get = |name| (ops.getopt)(pep.cast(), FI_OPT_ENDPOINT, name, value, room);
        assert_eq!((get(FI_OPT_CM_DATA_SIZE), *room), (-Errno::ETOOSMALL.get(), 8));
        assert_eq!((get(FI_OPT_CM_DATA_SIZE), size), (0, 256));
        assert_eq!(get(FI_OPT_MIN_MULTI_RECV), -Errno::ENOPROTOOPT.get());
        let set = (ops.setopt)(pep.cast(), FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, value, 8);
        assert_eq!(set, -Errno::ENOPROTOOPT.get());
    }
}

#[test]
fn shared_memory_has_no_passive_endpoints() {
    let objects = find("shm").and_then(|provider| provider.objects).expect("a provider");
    let fabric = fabric::open(FabricAttr::default(), objects, NULL).expect("fabric");
    let mut pep = core::ptr::null_mut();
    // SAFETY: the fabric is open, the info whole.
    let code =
        unsafe { ((*(*fabric).ops).passive_ep)(fabric, Owned::new("x").0, &raw mut pep, NULL) };
    assert_eq!((code, pep), (-Errno::ENOSYS.get(), core::ptr::null_mut()));
    assert_eq!(close(fabric), 0);
}
