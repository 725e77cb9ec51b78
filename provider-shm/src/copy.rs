//! HOT. Copies between our memory and another process's by the kernel (`process_vm_readv(2)`).

use fabric_core::{Errno, Result, mem::Buffers, op::IoVec};

/// Pieces of remote memory handed to the kernel at a time.
const BATCH: usize = 16;

/// Fills `local` with bytes of process `pid` at `remote` (address, length), skipping `skip`.
///
/// `EPERM` and `ENOSYS` where the system does not allow it, `ESRCH` when the process is gone,
/// `EFAULT` when the memory is not there. Loops over partial copies: the kernel moves less than
/// 2 GiB at a time.
pub fn from_process(pid: i32, remote: &[(u64, u64)], skip: usize, local: &Buffers) -> Result<()> {
    transfer(libc::process_vm_readv, pid, remote, skip, local)
}

/// Writes `local` to memory of process `pid` at `remote`. Fails as [`from_process`] does.
///
/// What is written to the wrong process cannot be taken back: only for a peer that has just asked
/// for it and whose socket is open.
pub fn to_process(pid: i32, local: &Buffers, remote: &[(u64, u64)]) -> Result<()> {
    transfer(libc::process_vm_writev, pid, remote, 0, local)
}

/// One of the two system calls.
type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

fn transfer(
    call: Call,
    pid: i32,
    remote: &[(u64, u64)],
    mut skip: usize,
    local: &Buffers,
) -> Result<()> {
    let total = local.len();
    let mut done = 0;
    while done < total {
        let mut theirs = [IoVec::EMPTY; BATCH];
        let (mut count, mut passed, mut left) = (0, skip, total - done);
        for &(addr, len) in remote {
            let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
            if passed >= len {
                passed -= len;
                continue;
            }
            if count == BATCH || left == 0 {
                break;
            }
            let take = (len - passed).min(left);
            let addr = usize::try_from(addr).map_err(|_| Errno::EINVAL)?;
            theirs[count] = IoVec { base: addr.wrapping_add(passed) as *mut u8, len: take };
            (count, passed, left) = (count + 1, 0, left - take);
        }
        if count == 0 {
            return Err(Errno::EFAULT);
        }
        let ours = local.slice(done, total - done);
        // SAFETY: the kernel touches at most the lengths of `ours`, which the operation's owner
        // keeps valid; it checks every address of the other process, whose memory is not ours to
        // be unsafe about. `IoVec` has the layout of `struct iovec`.
        let moved = unsafe {
            call(
                pid,
                ours.iov().as_ptr().cast(),
                ours.iov().len() as u64,
                theirs.as_ptr().cast(),
                count as u64,
                0,
            )
        };
        match usize::try_from(moved) {
            Ok(0) => return Err(Errno::EFAULT),
            Ok(moved) => (done, skip) = (done + moved, skip + moved),
            Err(_) => {
                let e = std::io::Error::last_os_error();
                return Err(Errno::new(e.raw_os_error().unwrap_or(libc::EIO)));
            }
        }
    }
    Ok(())
}

/// Whether process `pid` really is who it should be and its memory can be read: the word at the
/// probe's address has the probe's value.
pub fn probe(pid: i32, (addr, value): (u64, u64)) -> bool {
    let mut word = 0u64;
    let place = IoVec { base: (&raw mut word).cast(), len: 8 };
    // SAFETY: `word` outlives the call that uses the description.
    let Ok(local) = (unsafe { Buffers::new(&[place]) }) else { return false };
    pid > 0 && from_process(pid, &[(addr, 8)], 0, &local).is_ok() && word == value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_from_ourselves_over_several_pieces() {
        let source = [1u8, 2, 3, 4, 5, 6, 7, 8];
        let mut target = [0u8; 5];
        let place = IoVec { base: target.as_mut_ptr(), len: 5 };
        // SAFETY: `target` outlives `local`.
        let local = unsafe { Buffers::new(&[place]) }.unwrap();
        let at = source.as_ptr() as u64;
        let pid = std::process::id() as i32;
        from_process(pid, &[(at, 3), (at + 4, 4)], 1, &local).unwrap();
        assert_eq!(target, [2, 3, 5, 6, 7]);
    }

    #[test]
    fn a_probe_needs_the_right_value() {
        let word = 42u64;
        let pid = std::process::id() as i32;
        let at = &raw const word as u64;
        assert!(probe(pid, (at, 42)));
        assert!(!probe(pid, (at, 41)));
        assert!(!probe(0, (at, 42)));
        assert!(!probe(pid, (8, 42)));
    }
}
