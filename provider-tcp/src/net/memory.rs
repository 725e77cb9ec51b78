//! HOT. System calls on memory that is not ours: a message's bytes go between the socket and the
//! application's buffers without a copy in between.
//!
//! `rustix` takes slices, which would claim that nobody else touches the memory. An application's
//! region may be written by other threads while a peer reads it, so descriptions stay raw here.

use std::os::fd::{AsRawFd, BorrowedFd};

use fabric_core::{
    Errno, Result,
    mem::{Buffers, IOV_LIMIT},
};
use rustix::net::{RecvFlags, SendFlags};

/// Pieces in one call: bytes of ours and the application's.
const PIECES: usize = IOV_LIMIT + 1;

type Pieces = [libc::iovec; PIECES];

const NOTHING: libc::iovec = libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };

/// Appends what `data` describes.
fn append(pieces: &mut Pieces, mut count: usize, data: &Buffers) -> usize {
    for piece in data.iov().iter().filter(|piece| piece.len != 0) {
        pieces[count] = libc::iovec { iov_base: piece.base.cast(), iov_len: piece.len };
        count += 1;
    }
    count
}

fn header(pieces: &mut Pieces, count: usize) -> libc::msghdr {
    // SAFETY: all-zero is a valid `msghdr`: no name, no pieces, no control data.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = pieces.as_mut_ptr();
    message.msg_iovlen = count as _;
    message
}

fn outcome(n: isize) -> Result<usize> {
    usize::try_from(n).map_err(|_| {
        let os = std::io::Error::last_os_error().raw_os_error();
        reason(os.unwrap_or(libc::EIO))
    })
}

fn reason(os: i32) -> Errno {
    match os {
        // A signal came before the first byte; the caller looks again soon.
        libc::EINTR | libc::EWOULDBLOCK => Errno::EAGAIN,
        // Pages or buffers are short for the moment.
        libc::ENOBUFS | libc::ENOMEM => Errno::EAGAIN,
        other => Errno::new(other),
    }
}

/// Sends `bytes`, then `data`. Never blocks and never raises `SIGPIPE`. With `more` the kernel waits for
/// a full segment, for a while.
#[inline]
pub(super) fn send(fd: BorrowedFd<'_>, bytes: &[u8], data: &Buffers, more: bool) -> Result<usize> {
    if data.is_empty() {
        // The kernel is done sooner with one piece that it need not read the description of.
        let more = if more { SendFlags::MORE } else { SendFlags::empty() };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT | more;
        return rustix::net::send(fd, bytes, flags).map_err(|e| reason(e.raw_os_error()));
    }
    send_all(fd, bytes, data, more)
}

fn send_all(fd: BorrowedFd<'_>, bytes: &[u8], data: &Buffers, more: bool) -> Result<usize> {
    let mut pieces = [NOTHING; PIECES];
    let mut count = 0;
    if !bytes.is_empty() {
        let iov_base = bytes.as_ptr().cast_mut().cast();
        pieces[0] = libc::iovec { iov_base, iov_len: bytes.len() };
        count = 1;
    }
    let count = append(&mut pieces, count, data);
    let message = header(&mut pieces, count);
    let more = if more { libc::MSG_MORE } else { 0 };
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT | more;
    // SAFETY: `pieces` outlives the call and describes `bytes`, which are only read, and `data`,
    // which its maker vouches for.
    outcome(unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const message, flags) })
}

/// Receives into `data`, then into `rest`. Never blocks.
#[inline]
pub(super) fn receive(fd: BorrowedFd<'_>, data: &Buffers, rest: &mut [u8]) -> Result<usize> {
    if data.is_empty() {
        let received = rustix::net::recv(fd, rest, RecvFlags::DONTWAIT);
        return received.map(|(n, _)| n).map_err(|e| reason(e.raw_os_error()));
    }
    receive_all(fd, data, rest)
}

fn receive_all(fd: BorrowedFd<'_>, data: &Buffers, rest: &mut [u8]) -> Result<usize> {
    let mut pieces = [NOTHING; PIECES];
    let mut count = append(&mut pieces, 0, data);
    if !rest.is_empty() {
        pieces[count] = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        count += 1;
    }
    let mut message = header(&mut pieces, count);
    // SAFETY: `pieces` outlives the call and describes `rest`, which is ours to write, and `data`,
    // which its maker vouches for.
    outcome(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) })
}
