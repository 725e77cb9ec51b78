//! PENDING. Sleeping on queues and counters: `FI_GETWAIT` and `fi_trywait`.

use core::ffi::{c_int, c_void};

use fabric_core::{Errno, Result, api::Endpoint, attr::WaitObj};
use libc::{POLLIN, pollfd};

use super::{
    argument,
    payload::{CntrObject, CqObject, EqObject},
};
use crate::{
    abi::{
        attr::fi_wait_pollfd,
        constants::{FI_GETWAIT, FI_GETWAITOBJ, fi_wait_obj},
        fid::fid,
    },
    object::from_fid,
    provider::PROVIDERS,
};

/// Prepares one object for sleeping; `None` if it is no object of the function's endpoint type,
/// `Some(Ok(false))` if there is something to read first.
pub type TryWait = unsafe fn(*mut fid) -> Option<Result<bool>>;

/// `FI_GETWAIT` and `FI_GETWAITOBJ` on an object with this wait object. `ENODATA` without one,
/// `ENOSYS` for other commands.
///
/// # Safety
/// `arg` is null or what the command asks for.
pub(super) unsafe fn control(
    command: c_int,
    arg: *mut c_void,
    wait_obj: WaitObj,
    wait_fd: impl FnOnce() -> Result<c_int>,
) -> Result<()> {
    match (command, wait_obj) {
        (FI_GETWAIT | FI_GETWAITOBJ, WaitObj::None) => Err(Errno::ENODATA),
        (FI_GETWAITOBJ, _) => {
            let out = argument::<fi_wait_obj>(arg)?;
            // SAFETY: the caller's promise.
            unsafe { out.write(wait_obj as fi_wait_obj) };
            Ok(())
        }
        (FI_GETWAIT, WaitObj::PollFd) => {
            let out = argument::<fi_wait_pollfd>(arg)?;
            // SAFETY: the caller's promise.
            fill_pollfd(unsafe { &mut *out }, wait_fd()?)
        }
        (FI_GETWAIT, _) => {
            let fd = wait_fd()?;
            let out = argument::<c_int>(arg)?;
            // SAFETY: the caller's promise.
            unsafe { out.write(fd) };
            Ok(())
        }
        _ => Err(Errno::ENOSYS),
    }
}

/// One descriptor, which never changes. `ETOOSMALL` with the number needed if there is no room.
fn fill_pollfd(out: &mut fi_wait_pollfd, fd: c_int) -> Result<()> {
    let room = core::mem::replace(&mut out.nfds, 1);
    out.change_index = 1;
    if room == 0 {
        return Err(Errno::ETOOSMALL);
    }
    if out.fd.is_null() || !out.fd.is_aligned() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller has room for at least one.
    unsafe { out.fd.write(pollfd { fd, events: POLLIN, revents: 0 }) };
    Ok(())
}

/// Prepares a queue or counter for sleeping: `EAGAIN` if it must be read first, `EINVAL` for
/// objects that nobody can sleep on.
///
/// # Safety
/// `fid` is null or an object.
pub(super) unsafe fn try_wait(fid: *mut fid) -> Result<()> {
    // SAFETY: the caller's promise.
    if let Ok(shell) = unsafe { from_fid::<EqObject>(fid) } {
        return quiet(shell.payload()?.eq.try_wait()?);
    }
    let objects = PROVIDERS.iter().filter_map(|provider| provider.objects);
    for try_wait in objects.flat_map(|objects| objects.try_wait) {
        // SAFETY: the caller's promise.
        if let Some(answer) = unsafe { try_wait(fid) } {
            return quiet(answer?);
        }
    }
    Err(Errno::EINVAL)
}

/// [`TryWait`] for the queues and counters of one endpoint type.
///
/// # Safety
/// `fid` is null or an object.
pub unsafe fn try_wait_queue<E: Endpoint>(fid: *mut fid) -> Option<Result<bool>> {
    // SAFETY: the caller's promise.
    if let Ok(shell) = unsafe { from_fid::<CqObject<E>>(fid) } {
        return Some(shell.payload().and_then(|object| object.cq.try_wait()));
    }
    // SAFETY: the caller's promise.
    let shell = unsafe { from_fid::<CntrObject<E>>(fid) }.ok()?;
    Some(shell.payload().and_then(|object| object.counter.try_wait()))
}

const fn quiet(quiet: bool) -> Result<()> {
    if quiet { Ok(()) } else { Err(Errno::EAGAIN) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Plain;

    #[test]
    fn pollfd_tells_how_many() {
        let mut answer = fi_wait_pollfd::zeroed();
        let arg = (&raw mut answer).cast();
        // SAFETY: the argument is the command's.
        let code = |arg| unsafe { control(FI_GETWAIT, arg, WaitObj::PollFd, || Ok(7)) };
        assert_eq!((code(arg), answer.nfds), (Err(Errno::ETOOSMALL), 1));
        assert_eq!(code(arg), Err(Errno::EINVAL));
        assert_eq!(code(core::ptr::null_mut()), Err(Errno::EINVAL));
        let mut fds = [pollfd { fd: -1, events: 0, revents: 0 }; 1];
        answer.fd = fds.as_mut_ptr();
        assert_eq!(code((&raw mut answer).cast()), Ok(()));
        assert_eq!((fds[0].fd, answer.change_index), (7, 1));
    }
}
