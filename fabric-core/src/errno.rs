//! Error numbers of the C interface (`fi_errno(3)`): one register wide, `Copy`, never zero.

use core::{fmt, num::NonZeroI32};

/// Result of every operation that can be refused.
pub type Result<T, E = Errno> = core::result::Result<T, E>;

/// A positive error number. The C face returns its negative.
///
/// Values below 256 are the host's `errno`; 256 and above are the fabric's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Errno(NonZeroI32);

const OTHER: NonZeroI32 = NonZeroI32::new(256).unwrap();

macro_rules! errnos {
    ($($name:ident = $value:literal),* $(,)?) => {
        impl Errno {
            $(
                #[doc = concat!("`FI_", stringify!($name), "` (", stringify!($value), ").")]
                pub const $name: Self = Self::new($value);
            )*
            /// The constant's name without the `FI_` prefix, where the interface names this value.
            pub const fn name(self) -> Option<&'static str> {
                match self.0.get() {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

errnos! {
    EPERM = 1,
    ENOENT = 2,
    EINTR = 4,
    EIO = 5,
    E2BIG = 7,
    EBADF = 9,
    EAGAIN = 11,
    ENOMEM = 12,
    EACCES = 13,
    EFAULT = 14,
    EBUSY = 16,
    ENODEV = 19,
    EINVAL = 22,
    EMFILE = 24,
    ENOSPC = 28,
    ENOSYS = 38,
    ENOMSG = 42,
    ENODATA = 61,
    EPROTO = 71,
    EOVERFLOW = 75,
    EMSGSIZE = 90,
    ENOPROTOOPT = 92,
    EOPNOTSUPP = 95,
    EADDRINUSE = 98,
    EADDRNOTAVAIL = 99,
    ENETDOWN = 100,
    ENETUNREACH = 101,
    ECONNABORTED = 103,
    ECONNRESET = 104,
    ENOBUFS = 105,
    EISCONN = 106,
    ENOTCONN = 107,
    ESHUTDOWN = 108,
    ETIMEDOUT = 110,
    ECONNREFUSED = 111,
    EHOSTDOWN = 112,
    EHOSTUNREACH = 113,
    EALREADY = 114,
    EINPROGRESS = 115,
    EREMOTEIO = 121,
    ECANCELED = 125,
    EKEYREJECTED = 129,
    EOTHER = 256,
    ETOOSMALL = 257,
    EOPBADSTATE = 258,
    EAVAIL = 259,
    EBADFLAGS = 260,
    ENOEQ = 261,
    EDOMAIN = 262,
    ENOCQ = 263,
    ECRC = 264,
    ETRUNC = 265,
    ENOKEY = 266,
    ENOAV = 267,
    EOVERRUN = 268,
    ENORX = 269,
    ENOMR = 270,
    EFIREWALLADDR = 271,
}

impl Errno {
    /// Wraps a positive error number; zero and negative input becomes [`Errno::EOTHER`].
    pub const fn new(value: i32) -> Self {
        match NonZeroI32::new(value) {
            Some(positive) if value > 0 => Self(positive),
            _ => Self(OTHER),
        }
    }

    /// The positive number.
    pub const fn get(self) -> i32 {
        self.0.get()
    }

    /// What a C function returns for this error.
    pub const fn to_c(self) -> isize {
        -(self.0.get() as isize)
    }

    /// The text of one of the fabric's own errors (256 to 271), `None` for the host's.
    pub const fn fabric_text(self) -> Option<&'static str> {
        Some(match self.0.get() {
            256 => "Unspecified error",
            257 => "Provided buffer is too small",
            258 => "Operation not permitted in current state",
            259 => "Error available",
            260 => "Flags not supported",
            261 => "Missing or unavailable event queue",
            262 => "Invalid resource domain",
            263 => "Missing or unavailable completion queue",
            264 => "CRC error",
            265 => "Truncation error",
            266 => "Required key not available",
            267 => "Missing or unavailable address vector",
            268 => "Queue has been overrun",
            269 => "Receiver not ready, no receive buffers available",
            270 => "Memory registration limit reached",
            271 => "Host address unreachable from this side of the firewall",
            _ => return None,
        })
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "FI_{name}"),
            None => write!(f, "errno {}", self.get()),
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fabric_text() {
            Some(text) => f.write_str(text),
            None => write!(f, "{}", std::io::Error::from_raw_os_error(self.get())),
        }
    }
}

impl std::error::Error for Errno {}

impl From<rustix::io::Errno> for Errno {
    fn from(e: rustix::io::Errno) -> Self {
        Self::new(e.raw_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_zero_and_named() {
        assert_eq!(Errno::new(0), Errno::EOTHER);
        assert_eq!(Errno::new(-11), Errno::EOTHER);
        assert_eq!(Errno::EAGAIN.to_c(), -11);
        assert_eq!(format!("{:?}", Errno::ETRUNC), "FI_ETRUNC");
        assert_eq!(size_of::<Option<Errno>>(), 4);
    }
}
