//! A key-value store whose clients read without asking the server: one-sided reads of a table of fixed
//! slots. `FI_PROVIDER` chooses the way.
//!
//! A slot is a sequence number, a length and a value. The server makes the number odd, changes the
//! slot, and makes it even again; a reader that sees an odd number, or another one afterwards, looks
//! again.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    sync::atomic::{Ordering, fence},
};

use percale::{Access, Domain, Endpoint, Fabric, Hints, Peer, Region, Remote, Result};

const SLOTS: usize = 1024;
const SLOT: usize = 256;
/// Sequence number, hash of the key, length.
const HEAD: usize = 24;

/// Where a key is kept, and what else tells it from others that are kept there.
fn place(key: &str) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let hash = hasher.finish();
    (hash as usize % SLOTS * SLOT, hash)
}

/// The side that has the values. Another key of the same slot takes its place.
struct Store {
    region: Region,
}

impl Store {
    fn open(domain: &Domain) -> Result<Self> {
        Ok(Self { region: domain.region(SLOTS * SLOT, Access::Read)? })
    }

    fn put(&self, key: &str, value: &[u8]) {
        assert!(value.len() <= SLOT - HEAD, "a value of at most {} bytes", SLOT - HEAD);
        let (at, hash) = place(key);
        let slot = self.region.view().slice(at, SLOT);
        let sequence = slot.atomic_u64(0);
        sequence.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        slot.put(8, hash);
        slot.put(16, value.len() as u64);
        slot.write(HEAD, value);
        sequence.fetch_add(1, Ordering::Release);
    }
}

/// The side that reads.
struct Client {
    endpoint: Endpoint,
    server: Peer,
    table: Remote,
}

impl Client {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let (at, hash) = place(key);
        let slot = self.table.slice(at, SLOT).expect("a table of all slots");
        let (mut bytes, mut before) = (vec![0u8; SLOT], self.number(slot)?);
        loop {
            bytes = self.endpoint.read(self.server, slot, bytes).wait()?;
            let after = self.number(slot)?;
            if before == after && after.is_multiple_of(2) {
                break;
            }
            before = after;
        }
        let len = (word(&bytes, 16) as usize).min(SLOT - HEAD);
        let found = before != 0 && word(&bytes, 8) == hash;
        Ok(found.then(|| bytes[HEAD..HEAD + len].to_vec()))
    }

    /// The sequence number of a slot. It is read by itself: the bytes of one read may have been read in
    /// any order.
    fn number(&self, slot: Remote) -> Result<u64> {
        let number = slot.slice(0, 8).expect("a slot begins with it");
        Ok(word(&self.endpoint.read(self.server, number, vec![0u8; 8]).wait()?, 0))
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(word)
}

fn main() -> Result<()> {
    demonstrate(&Hints::rdm().messages().rma().open()?)
}

/// Server and client in one process: a thread changes what the other reads.
pub(crate) fn demonstrate(fabric: &Fabric) -> Result<()> {
    let domain = fabric.domain()?;
    let store = Store::open(&domain)?;
    let home = domain.endpoint()?;
    store.put("greeting", b"hello");

    let client = Client {
        endpoint: domain.endpoint()?,
        server: domain.peer(&home.address()?)?,
        table: store.region.remote(),
    };
    assert_eq!(client.get("nothing")?, None);
    assert_eq!(client.get("greeting")?.as_deref(), Some(&b"hello"[..]));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..200u8 {
                store.put("greeting", &[i; 100]);
                std::thread::yield_now();
            }
        });
        for _ in 0..100 {
            let value = client.get("greeting")?.expect("it is never taken away");
            let whole = value == b"hello" || value.iter().all(|byte| *byte == value[0]);
            assert!(whole, "torn: {value:?}");
        }
        Ok::<(), percale::Error>(())
    })?;
    println!("102 reads over {}, none torn", fabric.provider());
    Ok(())
}
