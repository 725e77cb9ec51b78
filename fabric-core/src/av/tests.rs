//! Address vectors of two toy formats, alone and against a model.

use proptest::prelude::*;

use super::*;
use crate::attr::addr_format;

/// NUL-terminated text with a scheme, as shared memory providers use.
struct Text;

impl AddressFormat for Text {
    fn addr_format(&self) -> u32 {
        addr_format::STR
    }
    fn parse(&self, bytes: &[u8]) -> Result<(Box<[u8]>, usize)> {
        let len = bytes.iter().position(|&b| b == 0).ok_or(Errno::EINVAL)?;
        let name = &bytes[..len];
        if !name.starts_with(b"toy://") || std::str::from_utf8(name).is_err() {
            return Err(Errno::EINVAL);
        }
        Ok((bytes[..=len].into(), len + 1))
    }
    fn text(&self, canonical: &[u8]) -> String {
        String::from_utf8_lossy(&canonical[..canonical.len() - 1]).into_owned()
    }
    fn addr_len(&self) -> Option<usize> {
        None
    }
    fn service_address(&self, node: Option<&str>, service: Option<&str>) -> Result<Box<[u8]>> {
        let (node, service) = (node.ok_or(Errno::EINVAL)?, service.unwrap_or("0"));
        Ok(format!("toy://{node}/{service}\0").into_bytes().into())
    }
}

/// 16 bytes of which the last 8 are padding, as in socket addresses.
struct Padded;

impl AddressFormat for Padded {
    fn addr_format(&self) -> u32 {
        addr_format::SOCKADDR_IN
    }
    fn parse(&self, bytes: &[u8]) -> Result<(Box<[u8]>, usize)> {
        let mut canonical = [0; 16];
        canonical[..8].copy_from_slice(bytes.get(..16).ok_or(Errno::EINVAL)?.split_at(8).0);
        Ok((canonical.into(), 16))
    }
    fn text(&self, canonical: &[u8]) -> String {
        format!("{:?}", &canonical[..8])
    }
    fn addr_len(&self) -> Option<usize> {
        Some(16)
    }
    fn service_address(&self, _: Option<&str>, _: Option<&str>) -> Result<Box<[u8]>> {
        Err(Errno::EINVAL)
    }
}

fn padded(host: u8, dirt: u8) -> [u8; 16] {
    let mut bytes = [dirt; 16];
    bytes[..8].copy_from_slice(&[host; 8]);
    bytes
}

fn open(flags: Flags) -> Arc<Av> {
    Av::open(AvType::Unspec, 4, flags, &Padded).unwrap()
}

#[test]
fn text_addresses() {
    let av = Av::open(AvType::Map, usize::MAX, Flags::empty(), &Text).unwrap();
    assert_eq!(av.kind(), AvType::Table);
    assert_eq!(av.insert(b"toy://a\0rubbish", None), Ok(0));
    assert_eq!(av.insert_service(Some("b"), Some("7"), None), Ok(1));
    assert_eq!(av.insert_service(None, Some("7"), None), Err(Errno::EINVAL));
    assert_eq!(av.insert(b"toy://a\0", None), Ok(0));
    assert_eq!(av.insert(b"toy://unterminated", None), Err(Errno::EINVAL));
    assert_eq!(av.insert(b"", None), Err(Errno::EINVAL));
    assert_eq!(av.lookup(1).unwrap()[..], *b"toy://b/7\0");
    assert_eq!(av.straddr(b"toy://a\0"), Ok("toy://a".to_owned()));
    assert_eq!(av.straddr(b"nonsense\0"), Err(Errno::EINVAL));
}

#[test]
fn refused_addresses_are_shown_as_far_as_a_line_has_room() {
    let text = Av::open(AvType::Table, 0, Flags::empty(), &Text).unwrap();
    assert_eq!(text.shown(b"a \n\0rest"), r#""a \n""#);
    assert!(text.shown(&[b'x'; 300]).len() < 120);
    assert_eq!(text.shown(b""), r#""""#);
    let bytes = open(Flags::empty());
    assert_eq!(bytes.shown(&[2, 0, 0x1f]), "[02 00 1f]");
    assert!(bytes.format().fault(&[]).contains("FI_SOCKADDR_IN"));
}

#[test]
fn indices_out_of_range() {
    let av = open(Flags::empty());
    av.insert(&padded(1, 0), None).unwrap();
    for addr in [1, 2, u64::from(u32::MAX), u64::MAX] {
        assert_eq!(av.remove(addr), Err(Errno::EINVAL));
        assert_eq!(av.lookup(addr), Err(Errno::EINVAL));
        assert_eq!(av.resolve(addr), None);
        assert_eq!(av.report_id(addr), ADDR_UNSPEC);
    }
}

#[test]
fn duplicates_are_counted() {
    let av = open(Flags::empty());
    assert_eq!(av.insert(&padded(1, 0), None), Ok(0));
    let before = av.generation();
    assert_eq!(av.insert(&padded(1, 0xee), None), Ok(0));
    assert_eq!(av.generation(), before, "nothing that an endpoint could have cached has changed");
    av.remove(0).unwrap();
    assert_eq!(av.find(&padded(1, 0)[..8]), None, "only the canonical form is known");
    let canonical = av.lookup(0).unwrap();
    assert_eq!(av.find(&canonical), Some(0));
    av.remove(0).unwrap();
    assert_eq!(av.remove(0), Err(Errno::EINVAL));
    assert_eq!(av.find(&canonical), None);
}

#[test]
fn reuse_of_an_index_is_noticed() {
    let av = open(Flags::empty());
    av.insert(&padded(1, 0), None).unwrap();
    let first = av.resolve(0).unwrap();
    assert_eq!(first.generation, av.generation());
    av.insert(&padded(2, 0), None).unwrap();
    assert_ne!(first.generation, av.generation());
    assert_eq!(av.resolve(0).unwrap().entry, first.entry, "another peer came, this one stays");

    av.remove(0).unwrap();
    assert_eq!(av.resolve(0), None);
    av.insert(&padded(1, 0), None).unwrap();
    let again = av.resolve(0).unwrap();
    assert_eq!(again.address, first.address);
    assert_ne!(again.entry, first.entry, "the same address, but inserted anew");
}

#[test]
fn user_ids() {
    let plain = open(Flags::empty());
    plain.insert(&padded(1, 0), Some(77)).unwrap();
    plain.insert(&padded(2, 0), None).unwrap();
    assert_eq!((plain.report_id(0), plain.report_id(1)), (77, 1));
    plain.insert(&padded(2, 0), Some(78)).unwrap();
    plain.insert(&padded(2, 0), None).unwrap();
    assert_eq!(plain.report_id(1), 78);
    assert_eq!(plain.set_user_id(0, 5), Err(Errno::EINVAL));

    let av = open(Flags::AV_USER_ID);
    assert_eq!(av.insert(&padded(1, 0), Some(77)), Err(Errno::EINVAL));
    av.insert(&padded(1, 0), None).unwrap();
    assert_eq!(av.report_id(0), ADDR_UNSPEC);
    let before = av.generation();
    av.set_user_id(0, 5).unwrap();
    assert_ne!(before, av.generation());
    assert_eq!(av.report_id(0), 5);
    assert_eq!(av.set_user_id(1, 5), Err(Errno::EINVAL));
    av.remove(0).unwrap();
    av.insert(&padded(1, 0), None).unwrap();
    assert_eq!(av.report_id(0), ADDR_UNSPEC, "an id goes with its entry");
}

#[test]
fn flags_at_open() {
    let open = |flags| Av::open(AvType::Table, 0, flags, &Padded).map(|av| av.flags());
    let known = Flags::AV_USER_ID | Flags::READ | SYMMETRIC | Flags::COMPLETION;
    assert_eq!(open(known), Ok(known));
    assert_eq!(open(Flags::MORE), Err(Errno::EBADFLAGS));
}

#[test]
fn busy_while_bound() {
    let av = open(Flags::empty());
    let (one, two) = (av.bind().unwrap(), av.bind().unwrap());
    drop(one);
    assert_eq!(av.close(), Err(Errno::EBUSY));
    assert_eq!(two.insert(&padded(1, 0), None), Ok(0), "still usable");
    drop(two);
    assert_eq!(av.close(), Ok(()));
    assert_eq!(av.bind().unwrap_err(), Errno::EINVAL);
}

/// One thread gives index 0 to ever other peers while another caches it by generation.
#[test]
fn a_cache_is_not_fooled_by_another_thread() {
    const ROUNDS: u32 = if cfg!(miri) { 50 } else { 2000 };
    let av = open(Flags::empty());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for host in 1..=ROUNDS {
                av.insert(&padded(host as u8, 0), None).unwrap();
                av.remove(0).unwrap();
            }
        });
        let (mut cached, mut last): (Option<Peer>, u64) = (None, 0);
        for _ in 0..ROUNDS {
            let now = av.generation();
            assert!(now >= last);
            if cached.as_ref().is_none_or(|peer| peer.generation != now) {
                let fresh = av.resolve(0);
                assert!(fresh.as_ref().is_none_or(|peer| peer.generation >= now));
                if let (Some(old), Some(new)) = (&cached, &fresh)
                    && old.entry == new.entry
                {
                    assert_eq!(old.address, new.address);
                }
                cached = fresh;
            }
            last = now;
        }
    });
}

/// Entries as (host, insertions) by index.
#[derive(Default)]
struct Model(Vec<Option<(u8, usize)>>);

impl Model {
    fn insert(&mut self, host: u8) -> usize {
        let known = self.0.iter().position(|e| e.is_some_and(|(h, _)| h == host));
        let free = || self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        let index = known.unwrap_or_else(free);
        if index == self.0.len() {
            self.0.push(None);
        }
        self.0[index] = Some((host, self.0[index].map_or(1, |(_, n)| n + 1)));
        index
    }

    fn remove(&mut self, index: usize) -> Result<()> {
        let slot = self.0.get_mut(index).ok_or(Errno::EINVAL)?;
        let (host, n) = slot.ok_or(Errno::EINVAL)?;
        *slot = (n > 1).then_some((host, n - 1));
        Ok(())
    }
}

proptest! {
    #[test]
    fn agrees_with_a_model(script in prop::collection::vec((any::<bool>(), 0u8..12, any::<u8>()), 0..200)) {
        let av = open(Flags::empty());
        let mut model = Model::default();
        let mut cached: Vec<Option<Peer>> = Vec::new();
        for (insert, which, dirt) in script {
            if insert {
                let want = model.insert(which) as u64;
                prop_assert_eq!(av.insert(&padded(which, dirt), None), Ok(want));
            } else {
                prop_assert_eq!(av.remove(which.into()), model.remove(which.into()));
            }
            prop_assert_eq!(av.len(), model.0.iter().flatten().count());
            for index in 0..14 {
                let want = model.0.get(index).copied().flatten().map(|(host, _)| host);
                let got = av.resolve(index as u64);
                prop_assert_eq!(got.as_ref().map(|peer| peer.address[0]), want);
                if let Some(peer) = &got {
                    prop_assert_eq!(av.find(&peer.address), Some(index as u64));
                    prop_assert_eq!(peer.generation, av.generation());
                }
                // A cache that trusts the generation is never wrong.
                cached.resize(14, None);
                if let Some(old) = &cached[index] && old.generation == av.generation() {
                    prop_assert_eq!(Some(old), got.as_ref());
                }
                if let (Some(old), Some(new)) = (&cached[index], &got) && old.entry == new.entry {
                    prop_assert_eq!(&old.address, &new.address);
                }
                cached[index] = got;
            }
        }
    }
}
