//! SETUP. Why a peer is not reached, in words for the log and for error completions.

use std::{
    collections::BTreeSet,
    ffi::CStr,
    fs::{self, File},
    io::Read,
    net::IpAddr,
};

use fabric_core::{Errno, mr, param::nearest, shortage};
use rustix::process::getuid;

use crate::address::{NAMESPACE, Name, SCHEME};

/// The kernel's table of local sockets in this network namespace, of all users.
const SOCKETS: &str = "/proc/net/unix";
/// Bytes of it that are looked at: some ten thousand sockets.
const TABLE_MAX: u64 = 1 << 20;
/// Names that are compared letter by letter with one that is not there.
const COMPARED: usize = 1000;

/// What an error number means on a completion.
pub(crate) fn words(err: Errno) -> Option<&'static CStr> {
    Some(match err {
        Errno::ECONNREFUSED => {
            c"Connection refused: no endpoint of this user has the peer's address in this network \
              namespace (FI_LOG_LEVEL=warn tells more)"
        }
        Errno::ECONNRESET => c"Connection reset: the peer has closed its endpoint or ended",
        Errno::EMFILE => c"Too many open files in this process (ulimit -n)",
        Errno::ENOSPC | Errno::ENOMEM => {
            c"No memory for the ring to the peer, on the host or in its control group"
        }
        Errno::EPROTO => {
            c"Protocol error: the peer has broken the rules, and its connection is closed"
        }
        _ => return mr::words(err),
    })
}

/// Why connecting to a canonical address has failed, as far as this process can tell.
pub(crate) fn cause(canonical: &[u8], err: Errno) -> String {
    match err {
        Errno::ECONNREFUSED => {
            let name = Name::parse(canonical).map_or("", Name::get);
            Sight::of(&table(), name, getuid().as_raw()).absence(name)
        }
        Errno::EACCES | Errno::EPERM => {
            "its endpoint is another user's, and shm connects endpoints of one user".to_owned()
        }
        Errno::ECONNRESET => "it has ended meanwhile".to_owned(),
        _ => shortage::limit(err).unwrap_or_else(|| "the system gives no other reason".to_owned()),
    }
}

/// What the table of sockets shows of a name.
#[derive(Debug, Default)]
struct Sight<'a> {
    /// Names of this user's endpoints.
    ours: BTreeSet<&'a str>,
    /// Another user whose endpoint has the name that is looked for.
    other: Option<u32>,
    /// There are more sockets than were looked at.
    cut: bool,
}

impl<'a> Sight<'a> {
    /// Any user's sockets are in the table, under any names.
    fn of(table: &'a [u8], name: &str, user: u32) -> Self {
        let mut sight = Self { cut: table.len() as u64 == TABLE_MAX, ..Self::default() };
        for line in table.split(|byte| *byte == b'\n') {
            match endpoint(line) {
                // Connected sockets bear their listener's name as well.
                Some((owner, found)) if owner == user => {
                    sight.ours.insert(found);
                }
                Some((owner, found)) if found == name => sight.other = Some(owner),
                _ => {}
            }
        }
        sight
    }

    /// Why nobody answers to the name.
    fn absence(&self, name: &str) -> String {
        if self.ours.contains(name) {
            return "its process has ended and left its socket to a child".to_owned();
        }
        if let Some(owner) = self.other {
            return format!(
                "the endpoint of this name is user {owner}'s, and shm connects endpoints of one user"
            );
        }
        if let Some(near) = nearest(name, self.ours.iter().copied().take(COMPARED)) {
            return format!("there is no such endpoint; did you mean {SCHEME}{near}?");
        }
        let ip = ip(name);
        if ip.is_some_and(|ip| !ip.is_loopback()) {
            return "there is no such endpoint on this host, and shm reaches no other; for a peer at \
                    an IP address use tcp (FI_PROVIDER=tcp)"
                .to_owned();
        }
        let tcp = match ip {
            Some(_) => "; a peer that listens at this IP address is one of tcp (FI_PROVIDER=tcp)",
            None => "",
        };
        format!(
            "no endpoint has this name here: it is misspelt, not enabled yet or closed, or lives in \
             another network namespace or on another host (in this one, {}, this user has {}){tcp}",
            namespace(),
            match self.ours.len() {
                _ if self.cut => "too many sockets to look at all".to_owned(),
                0 => "none".to_owned(),
                1 => "one".to_owned(),
                many => many.to_string(),
            }
        )
    }
}

/// The user and the name of an endpoint's socket, from its line of the table.
fn endpoint(line: &[u8]) -> Option<(u32, &str)> {
    let at = line.windows(2).position(|two| two == b" @")?;
    let path = str::from_utf8(line.get(at + 2..)?).ok()?.strip_prefix(NAMESPACE)?;
    let (owner, name) = path.split_once('/')?;
    let parsed = Name::parse(name.as_bytes()).ok()?.get();
    (parsed.len() == name.len()).then_some((owner.parse().ok()?, parsed))
}

/// The IP address that a name is, with or without a port.
fn ip(name: &str) -> Option<IpAddr> {
    let bare = |text: &str| {
        let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        text.split('%').next().and_then(|ip| ip.parse().ok())
    };
    bare(name).or_else(|| bare(name.rsplit_once(':')?.0))
}

/// Not more of it than can be looked at in a moment.
fn table() -> Vec<u8> {
    let mut table = Vec::new();
    // What cannot be read shows nothing.
    let _ = File::open(SOCKETS).and_then(|file| file.take(TABLE_MAX).read_to_end(&mut table));
    table
}

/// The network namespace as `lsns` and `/proc` name it.
fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let text = link.to_string_lossy();
    if text.is_empty() { "net:[?]".to_owned() } else { text.into_owned() }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const TABLE: &[u8] = b"Num RefCount Protocol Flags Type St Inode Path\n\
        0: 00000002 00000000 00010000 0005 01 1 @percale/7/server.1\n\
        0: 00000003 00000000 00000000 0005 03 2 @percale/7/server.1\n\
        0: 00000002 00000000 00010000 0005 01 3 @percale/8/shared\n\
        0: 00000002 00000000 00010000 0005 01   5 @percale/7/in two\n\
        0: 00000002 00000000 00010000 0005 01 6 @some-program-\xff\xfe\n\
        0: 00000002 00000000 00010000 0005 01 7 @percale/7/server.\xff\n\
        0: 00000002 00000000 00010000 0005 01 8 @percale/7/sarver.3\x1b\n\
        0: 00000002 00000000 00010000 0001 01 4 /run/percale/7/path\n\
        0: 00000002 00000000 00010000 0001 01 5\n";

    #[test]
    fn each_absence_has_its_reason() {
        let says = |name: &str, word: &str| {
            let text = Sight::of(TABLE, name, 7).absence(name);
            assert!(text.contains(word), "{name}: {text}");
        };
        says("server.1", "left its socket to a child");
        says("in two", "left its socket to a child");
        says("shared", "user 8's");
        says("server.2", "did you mean fi_shm://server.1?");
        says("path", "another network namespace or on another host");
        says("path", "this user has 2)");
        for name in ["10.0.0.1:5000", "10.0.0.1", "fe80::1%eth0", "[2001:db8::1]:5000"] {
            says(
                name,
                "shm reaches no other; for a peer at an IP address use tcp (FI_PROVIDER=tcp)",
            );
        }
        for name in ["127.0.0.1:5000", "[::1]:5000", "::1"] {
            says(name, "misspelt");
            says(name, "FI_PROVIDER=tcp");
        }
        assert!(Sight::of(b"", "a", 7).absence("a").contains("this user has none"));
    }

    /// Whoever may bind sockets may bind many, in our namespace, too.
    #[test]
    fn a_crowd_of_sockets_is_looked_at_in_no_time() {
        let mut table = Vec::new();
        for at in 0.. {
            let name = format!("0: 2 0 10000 5 01 {at} @percale/7/{at:070}\n");
            if table.len() + name.len() > TABLE_MAX as usize {
                break;
            }
            table.extend_from_slice(name.as_bytes());
        }
        table.resize(TABLE_MAX as usize, b'\n');
        let (name, begin) = ("x".repeat(70), Instant::now());
        let text = Sight::of(&table, &name, 7).absence(&name);
        assert!(text.contains("too many sockets"), "{text}");
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }

    #[test]
    fn shortages_name_their_limit() {
        assert!(cause(b"fi_shm://a\0", Errno::EMFILE).contains("ulimit -n"));
        assert!(cause(b"fi_shm://a\0", Errno::EACCES).contains("another user's"));
        assert!(cause(b"fi_shm://a\0", Errno::EPROTO).contains("no other reason"));
        assert!(words(Errno::ENOKEY).is_some() && words(Errno::ETRUNC).is_none());
    }
}
