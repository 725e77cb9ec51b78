//! SETUP. Why a peer is not reached, in words for the log and for error completions.

use std::{ffi::CStr, fs, net::IpAddr};

use fabric_core::{Errno, mr, param::nearest, shortage};
use rustix::process::getuid;

use crate::address::{NAMESPACE, Name, SCHEME};

/// The kernel's table of local sockets in this network namespace, of all users.
const SOCKETS: &str = "/proc/net/unix";

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
            let table = fs::read_to_string(SOCKETS).unwrap_or_default();
            Names::read(&table, getuid().as_raw()).absence(name)
        }
        Errno::EACCES | Errno::EPERM => {
            "its endpoint is another user's, and shm connects endpoints of one user".to_owned()
        }
        Errno::ECONNRESET => "it has ended meanwhile".to_owned(),
        _ => shortage::limit(err).unwrap_or_else(|| "the system gives no other reason".to_owned()),
    }
}

/// The names of all endpoints in this network namespace.
#[derive(Debug, Default)]
struct Names<'a> {
    ours: Vec<&'a str>,
    others: Vec<(&'a str, &'a str)>,
}

impl<'a> Names<'a> {
    fn read(table: &'a str, user: u32) -> Self {
        let user = user.to_string();
        let mut names = Self::default();
        for line in table.lines() {
            let path = line.rsplit(' ').next().and_then(|path| path.strip_prefix('@'));
            let Some((owner, name)) =
                path.and_then(|path| path.strip_prefix(NAMESPACE)?.split_once('/'))
            else {
                continue;
            };
            // Connected sockets bear their listener's name as well.
            if owner == user {
                if !names.ours.contains(&name) {
                    names.ours.push(name);
                }
            } else {
                names.others.push((owner, name));
            }
        }
        names
    }

    /// Why nobody answers to a name.
    fn absence(&self, name: &str) -> String {
        if self.ours.contains(&name) {
            return "its process has ended and left its socket to a child".to_owned();
        }
        if let Some((owner, _)) = self.others.iter().find(|(_, other)| *other == name) {
            return format!(
                "the endpoint of this name is user {owner}'s, and shm connects endpoints of one user"
            );
        }
        if let Some(near) = nearest(name, self.ours.iter().copied()) {
            return format!("there is no such endpoint; did you mean {SCHEME}{near}?");
        }
        let host = name.rsplit_once(':').map_or(name, |(host, _)| host);
        if host.parse::<IpAddr>().is_ok_and(|ip| !ip.is_loopback()) {
            return "there is no such endpoint on this host, and shm reaches no other; for a peer at \
                    an IP address use tcp (FI_PROVIDER=tcp)"
                .to_owned();
        }
        format!(
            "no endpoint has this name here: it is misspelt, not enabled yet or closed, or lives in \
             another network namespace or on another host (in this one, {}, this user has {})",
            namespace(),
            match self.ours.len() {
                0 => "none".to_owned(),
                1 => "one".to_owned(),
                many => many.to_string(),
            }
        )
    }
}

/// The network namespace as `lsns` and `/proc` name it.
fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let text = link.to_string_lossy();
    if text.is_empty() { "net:[?]".to_owned() } else { text.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "Num RefCount Protocol Flags Type St Inode Path\n\
        0: 00000002 00000000 00010000 0005 01 1 @percale/7/server.1\n\
        0: 00000003 00000000 00000000 0005 03 2 @percale/7/server.1\n\
        0: 00000002 00000000 00010000 0005 01 3 @percale/8/shared\n\
        0: 00000002 00000000 00010000 0001 01 4 /run/percale/7/path\n\
        0: 00000002 00000000 00010000 0001 01 5\n";

    #[test]
    fn each_absence_has_its_reason() {
        let names = Names::read(TABLE, 7);
        assert_eq!(names.ours, ["server.1"]);
        let says = |name: &str, word: &str| {
            let text = names.absence(name);
            assert!(text.contains(word), "{name}: {text}");
        };
        says("server.1", "left its socket to a child");
        says("shared", "user 8's");
        says("server.2", "did you mean fi_shm://server.1?");
        says("path", "another network namespace or on another host");
        says("path", "this user has one");
        says("10.0.0.1:5000", "FI_PROVIDER=tcp");
        says("127.0.0.1:5000", "misspelt");
        assert!(Names::read("", 7).absence("a").contains("this user has none"));
    }

    #[test]
    fn shortages_name_their_limit() {
        assert!(cause(b"fi_shm://a\0", Errno::EMFILE).contains("ulimit -n"));
        assert!(cause(b"fi_shm://a\0", Errno::EACCES).contains("another user's"));
        assert!(cause(b"fi_shm://a\0", Errno::EPROTO).contains("no other reason"));
        assert!(words(Errno::ENOKEY).is_some() && words(Errno::ETRUNC).is_none());
    }
}
