//! SETUP. What error numbers mean on completions of operations over TCP.

use std::ffi::CStr;

use fabric_core::{Errno, mr};

/// In words, where there is more to say than the system does.
pub(crate) fn words(err: Errno) -> Option<&'static CStr> {
    Some(match err {
        Errno::ECONNREFUSED => {
            c"Connection refused: no endpoint has listened at the peer's address for \
              FI_TCP_CONNECT_TIMEOUT, or it has turned us away"
        }
        Errno::ECONNRESET => c"Connection reset: the peer has closed its endpoint or ended",
        Errno::ETIMEDOUT => {
            c"Timed out: the peer's host does not answer (FI_TCP_CONNECT_TIMEOUT, \
              FI_TCP_PEER_TIMEOUT)"
        }
        Errno::ENETUNREACH | Errno::EHOSTUNREACH => {
            c"No route to the peer from the address that the endpoint is bound to"
        }
        Errno::EMFILE => c"Too many open files in this process (ulimit -n)",
        Errno::EPROTO => {
            c"Protocol error: what answers at the peer's address speaks another protocol, or has \
              broken the rules (FI_LOG_LEVEL=warn tells more)"
        }
        Errno::EOPNOTSUPP => c"Not supported by the library at the peer's end",
        _ => return mr::words(err),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_more_than_the_system() {
        for err in [Errno::ECONNREFUSED, Errno::ETIMEDOUT, Errno::EPROTO] {
            let text = words(err).unwrap().to_str().unwrap();
            assert!(text.len() > 40 && text.is_ascii() && !text.contains("  "), "{text}");
        }
        assert!(words(Errno::ETRUNC).is_none());
    }
}
