//! SETUP. Options of TCP sockets that `rustix` does not have, and what the kernel tells of a
//! connection (`tcp(7)`).

use std::{
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    time::Duration,
};

use fabric_core::{Errno, Result};
use rustix::net::sockopt;

use super::Life;

/// How sockets are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// How long a peer's kernel may be silent where an answer is due; `None` is for ever.
    pub(crate) patience: Option<Duration>,
    /// Small segments leave at once.
    pub(crate) nodelay: bool,
}

/// The kernel's longest pause between two attempts, in milliseconds; known since Linux 6.15.
const TCP_RTO_MAX_MS: libc::c_int = 44;
/// `TCP_ESTABLISHED` of the kernel's `tcp_states.h`.
const ESTABLISHED: u8 = 1;
/// What it takes for that.
const RTO_MAX: (u128, u128) = (1000, 120_000);

impl Options {
    /// Sets a socket up. Nothing of this can fail on a TCP socket in a way that matters: without it,
    /// connections still work.
    pub(super) fn apply(self, socket: impl AsFd) {
        let fd = socket.as_fd();
        let _ = sockopt::set_tcp_nodelay(fd, self.nodelay);
        let Some(patience) = self.patience else { return };
        let (idle, pause, probes) = keepalive(patience.as_secs());
        let _ = sockopt::set_socket_keepalive(fd, true);
        let _ = sockopt::set_tcp_keepidle(fd, Duration::from_secs(idle));
        let _ = sockopt::set_tcp_keepintvl(fd, Duration::from_secs(pause));
        let _ = sockopt::set_tcp_keepcnt(fd, probes);
        // Pauses double each time: a peer that reads nothing for minutes would be asked so rarely
        // that its death could not be told from that within the bound.
        let pause = (patience / 4).as_millis().clamp(RTO_MAX.0, RTO_MAX.1);
        let _ = set(fd, libc::IPPROTO_TCP, TCP_RTO_MAX_MS, pause as libc::c_int);
    }
}

/// Has the kernel ask an idle peer for a sign of life within a second, or as [`Options::apply`] says.
pub(super) fn ask_for_life(fd: BorrowedFd<'_>, options: Options, soon: bool) {
    if soon {
        // Nothing of this can fail in a way that matters, as above.
        let _ = sockopt::set_tcp_keepidle(fd, Duration::from_secs(1));
        let _ = sockopt::set_socket_keepalive(fd, true);
    } else {
        let _ = sockopt::set_socket_keepalive(fd, options.patience.is_some());
        options.apply(fd);
    }
}

/// When the kernel asks an idle peer for a sign of life, how often again, and how many times, so that
/// it gives up after `bound` seconds: in the second half of it, as far as there are whole seconds.
fn keepalive(bound: u64) -> (u64, u64, u32) {
    let pause = (bound / 6).max(1);
    let probes = (bound.saturating_sub(1) / pause).clamp(1, 3);
    let idle = bound.saturating_sub(probes * pause).max(1);
    (idle, pause, probes as u32)
}

/// Lets many connections from one address share its ports (`IP_BIND_ADDRESS_NO_PORT`, `ip(7)`).
pub(super) fn bind_without_port(fd: BorrowedFd<'_>) -> Result<()> {
    set(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}

/// Has the kernel tell of bytes when there are `count` of them, or no room for more (`SO_RCVLOWAT`,
/// socket(7); it makes room for them as far as it may).
pub(super) fn set_low_water_mark(fd: BorrowedFd<'_>, count: usize) {
    let count = libc::c_int::try_from(count).unwrap_or(libc::c_int::MAX);
    // Without it, bytes are told of earlier.
    let _ = set(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, count);
}

/// What the kernel knows of a connected socket's peer.
pub(super) fn life(fd: BorrowedFd<'_>) -> Option<Life> {
    // SAFETY: plain numbers, for which all zeroes are a value.
    let mut info: libc::tcp_info = unsafe { core::mem::zeroed() };
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `info`.
    let got = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut len,
        )
    };
    // Older kernels tell less, and leave the rest at zero.
    (got == 0).then(|| Life {
        owes: info.tcpi_unacked != 0 || info.tcpi_notsent_bytes != 0,
        again: info.tcpi_retransmits,
        probes: info.tcpi_probes,
        silence: Duration::from_millis(
            info.tcpi_last_ack_recv.min(info.tcpi_last_data_recv).into(),
        ),
        ended: info.tcpi_state != ESTABLISHED,
    })
}

fn set(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    let at = (&raw const value).cast();
    // SAFETY: these options take an int, which `value` is, for the length of the call.
    let n = unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, at, len) };
    if n == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    Errno::new(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keepalive_takes_the_bound() {
        assert_eq!(keepalive(30), (15, 5, 3));
        assert_eq!(keepalive(10), (7, 1, 3));
        assert_eq!(keepalive(3), (1, 1, 2));
        assert_eq!(keepalive(2), (1, 1, 1));
        // One second is too short for a second and a question.
        assert_eq!(keepalive(1), (1, 1, 1));
        for bound in 2..1000 {
            let (idle, pause, probes) = keepalive(bound);
            assert_eq!(idle + pause * u64::from(probes), bound);
        }
    }
}
