//! HOT. Copies between our memory and another process's by the kernel (`process_vm_readv(2)`).

use fabric_core::{Errno, Result, mem::Buffers, op::IoVec};

/// Pieces of remote memory handed to the kernel at a time.
const BATCH: usize = 16;

/// Where a process keeps a random word (address, value): who has it at that place is the process
/// that said so, whatever has become of its number.
pub type Witness = (u64, u64);

/// Fills `local` with bytes of process `pid` at `remote` (address, length), skipping `skip`.
///
/// `EPERM` and `ENOSYS` where the system does not allow it, `ECONNRESET` when the process is gone and
/// its number perhaps another's, `EFAULT` when the memory is not there. Loops over partial copies:
/// the kernel moves less than 2 GiB at a time.
pub fn from_process(
    pid: i32,
    witness: Witness,
    remote: &[(u64, u64)],
    skip: usize,
    local: &Buffers,
) -> Result<()> {
    let mut word = 0u64;
    let mut done = 0;
    while done < local.len() {
        // The word comes first, in the same call and so from the same process as the bytes.
        let mut theirs = Pieces::default();
        theirs.push(witness.0, 8)?;
        theirs.push_all(remote, skip + done, local.len() - done)?;
        let mut ours = Pieces::default();
        ours.push(&raw mut word as u64, 8)?;
        local.slice(done, usize::MAX).iov().iter().try_for_each(|piece| ours.push_iov(piece))?;
        let moved = call(libc::process_vm_readv, pid, &ours, &theirs)?;
        if moved < 8 || word != witness.1 {
            return Err(Errno::ECONNRESET);
        }
        if moved == 8 {
            return Err(Errno::EFAULT);
        }
        done += moved - 8;
    }
    Ok(())
}

/// Writes `local` to memory of process `pid` at `remote`. Fails as [`from_process`] does.
///
/// What is written to the wrong process cannot be taken back: only for a peer that has just asked
/// for it and whose socket is open.
pub fn to_process(pid: i32, local: &Buffers, remote: &[(u64, u64)]) -> Result<()> {
    let mut done = 0;
    while done < local.len() {
        let mut theirs = Pieces::default();
        theirs.push_all(remote, done, local.len() - done)?;
        let mut ours = Pieces::default();
        local.slice(done, usize::MAX).iov().iter().try_for_each(|piece| ours.push_iov(piece))?;
        match call(libc::process_vm_writev, pid, &ours, &theirs)? {
            0 => return Err(Errno::EFAULT),
            moved => done += moved,
        }
    }
    Ok(())
}

/// Whether process `pid` really is who it should be and its memory can be read.
pub fn probe(pid: i32, witness: Witness) -> bool {
    let mut word = 0u64;
    let place = IoVec { base: (&raw mut word).cast(), len: 8 };
    // SAFETY: `word` outlives the call that uses the description.
    let Ok(local) = (unsafe { Buffers::new(&[place]) }) else { return false };
    pid > 0 && from_process(pid, witness, &[(witness.0, 8)], 0, &local).is_ok()
}

/// One side of a copy, as the kernel takes it; `IoVec` has the layout of `struct iovec`.
struct Pieces {
    iov: [IoVec; BATCH + 1],
    count: usize,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { iov: [IoVec::EMPTY; BATCH + 1], count: 0 }
    }
}

impl Pieces {
    fn push(&mut self, addr: u64, len: usize) -> Result<()> {
        let base = usize::try_from(addr).map_err(|_| Errno::EINVAL)? as *mut u8;
        self.push_iov(&IoVec { base, len })
    }

    fn push_iov(&mut self, piece: &IoVec) -> Result<()> {
        *self.iov.get_mut(self.count).ok_or(Errno::EINVAL)? = *piece;
        self.count += 1;
        Ok(())
    }

    /// As many of the pieces behind `skip` bytes as fit, up to `want` bytes.
    fn push_all(&mut self, pieces: &[(u64, u64)], mut skip: usize, mut want: usize) -> Result<()> {
        for &(addr, len) in pieces {
            let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
            if skip >= len {
                skip -= len;
                continue;
            }
            if self.count > BATCH || want == 0 {
                break;
            }
            let take = (len - skip).min(want);
            self.push(addr.wrapping_add(skip as u64), take)?;
            (skip, want) = (0, want - take);
        }
        Ok(())
    }
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

fn call(call: Call, pid: i32, ours: &Pieces, theirs: &Pieces) -> Result<usize> {
    // SAFETY: the kernel touches at most the lengths of `ours`, which are a word of the caller and
    // memory that the operation's owner keeps valid; it checks every address of the other process,
    // whose memory is not ours to be unsafe about.
    let moved = unsafe {
        call(
            pid,
            ours.iov.as_ptr().cast(),
            ours.count as u64,
            theirs.iov.as_ptr().cast(),
            theirs.count as u64,
            0,
        )
    };
    usize::try_from(moved).map_err(|_| {
        Errno::new(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    static WORD: u64 = 4711;

    #[test]
    fn copies_from_ourselves_over_several_pieces() {
        let source = [1u8, 2, 3, 4, 5, 6, 7, 8];
        let mut target = [0u8; 5];
        let place = IoVec { base: target.as_mut_ptr(), len: 5 };
        // SAFETY: `target` outlives `local`.
        let local = unsafe { Buffers::new(&[place]) }.unwrap();
        let at = source.as_ptr() as u64;
        let pid = std::process::id() as i32;
        let witness = (&raw const WORD as u64, WORD);
        from_process(pid, witness, &[(at, 3), (at + 4, 4)], 1, &local).unwrap();
        assert_eq!(target, [2, 3, 5, 6, 7]);
    }

    #[test]
    fn bytes_of_somebody_else_do_not_count() {
        let mut target = [0u8; 8];
        let place = IoVec { base: target.as_mut_ptr(), len: 8 };
        // SAFETY: `target` outlives `local`.
        let local = unsafe { Buffers::new(&[place]) }.unwrap();
        let at = &raw const WORD as u64;
        let pid = std::process::id() as i32;
        let copied = from_process(pid, (at, WORD + 1), &[(at, 8)], 0, &local);
        assert_eq!(copied, Err(Errno::ECONNRESET));
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
