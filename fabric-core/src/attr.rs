//! SETUP. What a provider offers and what an application asks for: `fi_info` as owned Rust data.
//!
//! The C face converts these to and from the C structs; zero or `None` in a hint means "any".
//! Field meanings are those of `fi_getinfo(3)`, `fi_domain(3)`, `fi_endpoint(3)`.

mod nic;

use crate::flags::{Flags, Mode, MrMode, Order};
pub use nic::{LinkState, Nic, NicDevice, NicLink, PciAddress};

macro_rules! c_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$vdoc])* #[doc = concat!("Value ", stringify!($value), ".")] $variant = $value),*
        }
        impl $name {
            /// Parses the value of the C enum.
            pub const fn from_raw(raw: u32) -> Option<Self> {
                match raw {
                    $($value => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

c_enum! {
    /// Endpoint types.
    EpType { #[default] Unspec = 0, Msg = 1, Dgram = 2, Rdm = 3 }
}
c_enum! {
    /// Who serialises calls (`fi_domain(3)`). `Fid` and `Endpoint` are retired names.
    Threading { #[default] Unspec = 0, Safe = 1, Fid = 2, Domain = 3, Completion = 4, Endpoint = 5 }
}
c_enum! {
    /// Who moves operations forward.
    Progress { #[default] Unspec = 0, Auto = 1, Manual = 2, ControlUnified = 3 }
}
c_enum! {
    /// Who guards queues against overruns.
    ResourceMgmt { #[default] Unspec = 0, Disabled = 1, Enabled = 2 }
}
c_enum! {
    /// Address vector kinds. `Map` is deprecated and behaves as `Table`.
    AvType { #[default] Unspec = 0, Map = 1, Table = 2 }
}
c_enum! {
    /// Completion entry formats; each is a prefix of the next.
    CqFormat { #[default] Unspec = 0, Context = 1, Msg = 2, Data = 3, Tagged = 4 }
}
c_enum! {
    /// Objects that a thread can sleep on.
    WaitObj { #[default] None = 0, Unspec = 1, Set = 2, Fd = 3, MutexCond = 4, Yield = 5, PollFd = 6 }
}
c_enum! {
    /// What a counter counts.
    CntrEvents { #[default] Comp = 0, Bytes = 1 }
}

/// Address formats (`addr_format`); values outside the named ones are kept as they are.
pub mod addr_format {
    /// Any.
    pub const UNSPEC: u32 = 0;
    /// Any socket address.
    pub const SOCKADDR: u32 = 1;
    /// IPv4.
    pub const SOCKADDR_IN: u32 = 2;
    /// IPv6.
    pub const SOCKADDR_IN6: u32 = 3;
    /// InfiniBand.
    pub const SOCKADDR_IB: u32 = 4;
    /// IPv4 or IPv6.
    pub const SOCKADDR_IP: u32 = 17;
    /// NUL-terminated text.
    pub const STR: u32 = 9;
    /// A queue pair of datagrams.
    pub const IB_UD: u32 = 11;
}

/// Protocol numbers (`ep_attr.protocol`).
pub mod protocol {
    /// Any.
    pub const UNSPEC: u32 = 0;
    /// Messages over one reliable InfiniBand or RoCE connection.
    pub const RDMA_CM_IB_RC: u32 = 1;
    /// Messages over one iWARP connection.
    pub const IWARP: u32 = 2;
    /// InfiniBand or RoCE datagrams.
    pub const IB_UD: u32 = 3;
    /// Messages over one TCP connection.
    pub const SOCK_TCP: u32 = 6;
    /// Messages over reliable datagram over connections.
    pub const RXM: u32 = 11;
    /// Shared memory.
    pub const SHM: u32 = 16;
    /// tcp.
    pub const XNET: u32 = 25;

    /// The C name of a protocol that providers here speak, or the number.
    pub fn name(raw: u32) -> String {
        match raw {
            UNSPEC => "FI_PROTO_UNSPEC".to_owned(),
            RDMA_CM_IB_RC => "FI_PROTO_RDMA_CM_IB_RC".to_owned(),
            IWARP => "FI_PROTO_IWARP".to_owned(),
            IB_UD => "FI_PROTO_IB_UD".to_owned(),
            SOCK_TCP => "FI_PROTO_SOCK_TCP".to_owned(),
            RXM => "FI_PROTO_RXM".to_owned(),
            SHM => "FI_PROTO_SHM".to_owned(),
            XNET => "FI_PROTO_XNET".to_owned(),
            other => format!("protocol {other}"),
        }
    }
}

/// A version as the C interface packs it: major in the upper, minor in the lower 16 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Version(pub u32);

impl Version {
    /// Packs a version.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self(((major as u32) << 16) | minor as u32)
    }
    /// The major number.
    pub const fn major(self) -> u32 {
        self.0 >> 16
    }
    /// The minor number.
    pub const fn minor(self) -> u32 {
        self.0 & 0xffff
    }
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.major(), self.minor())
    }
}

/// The interface version that this library implements (`fi_version()`).
pub const API_VERSION: Version = Version::new(2, 6);

/// `prov_version` of every provider here: major * 100 + minor, revision * 10.
pub const PROV_VERSION: Version = Version::new(206, 0);

/// One offer (or, as a hint, one wish): `fi_info`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// Capabilities.
    pub caps: Flags,
    /// Duties that the provider puts on the application.
    pub mode: Mode,
    /// One of [`addr_format`].
    pub addr_format: u32,
    /// Source address in `addr_format`, empty if none.
    pub src_addr: Vec<u8>,
    /// Destination address in `addr_format`, empty if none.
    pub dest_addr: Vec<u8>,
    /// Transmit side; `None` in a hint means "any".
    pub tx: Option<TxAttr>,
    /// Receive side.
    pub rx: Option<RxAttr>,
    /// Endpoint.
    pub ep: Option<EpAttr>,
    /// Domain.
    pub domain: Option<DomainAttr>,
    /// Fabric.
    pub fabric: Option<FabricAttr>,
    /// The network card, in offers of providers that know it.
    pub nic: Option<Nic>,
}

/// `fi_tx_attr`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxAttr {
    /// Capabilities of the transmit side.
    pub caps: Flags,
    /// Duties.
    pub mode: Mode,
    /// Flags of operations that carry none of their own.
    pub op_flags: Flags,
    /// Ordering.
    pub msg_order: Order,
    /// Deprecated, zero.
    pub comp_order: u64,
    /// Largest inject, in bytes, for every operation.
    pub inject_size: usize,
    /// Outstanding operations.
    pub size: usize,
    /// Local IO vector entries.
    pub iov_limit: usize,
    /// Remote IO vector entries.
    pub rma_iov_limit: usize,
    /// Traffic class.
    pub tclass: u32,
}

/// `fi_rx_attr`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RxAttr {
    /// Capabilities of the receive side.
    pub caps: Flags,
    /// Duties.
    pub mode: Mode,
    /// Flags of operations that carry none of their own.
    pub op_flags: Flags,
    /// Ordering.
    pub msg_order: Order,
    /// Deprecated, zero.
    pub comp_order: u64,
    /// Deprecated, zero.
    pub total_buffered_recv: usize,
    /// Posted receives.
    pub size: usize,
    /// Local IO vector entries.
    pub iov_limit: usize,
}

/// `FI_SHARED_CONTEXT` in the numbers of contexts of an endpoint: one that others use as well.
pub const SHARED_CONTEXT: usize = usize::MAX;

/// `fi_ep_attr`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EpAttr {
    /// Endpoint type as the C enum's value; unknown values match nothing.
    pub ep_type: u32,
    /// One of [`protocol`].
    pub protocol: u32,
    /// Version of the protocol.
    pub protocol_version: u32,
    /// Largest message in bytes.
    pub max_msg_size: usize,
    /// Prefix bytes with `Mode::MSG_PREFIX`.
    pub msg_prefix_size: usize,
    /// Data order bound, read after write.
    pub max_order_raw_size: usize,
    /// Data order bound, write after read.
    pub max_order_war_size: usize,
    /// Data order bound, write after write.
    pub max_order_waw_size: usize,
    /// Usable tag bits or a tag format.
    pub mem_tag_format: u64,
    /// Transmit contexts.
    pub tx_ctx_cnt: usize,
    /// Receive contexts.
    pub rx_ctx_cnt: usize,
    /// Authorisation key.
    pub auth_key: Vec<u8>,
    /// Its size; may be the special value all ones, hence apart from the bytes.
    pub auth_key_size: usize,
}

/// `fi_domain_attr`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainAttr {
    /// Name.
    pub name: Option<String>,
    /// Threading as the C enum's value.
    pub threading: u32,
    /// Deprecated slot, follows `progress`.
    pub control_progress: u32,
    /// Progress as the C enum's value.
    pub progress: u32,
    /// Resource management as the C enum's value.
    pub resource_mgmt: u32,
    /// Address vector type as the C enum's value.
    pub av_type: u32,
    /// Registration duties.
    pub mr_mode: MrMode,
    /// Bytes of a key.
    pub mr_key_size: usize,
    /// Bytes of remote CQ data.
    pub cq_data_size: usize,
    /// Completion queues.
    pub cq_cnt: usize,
    /// Endpoints.
    pub ep_cnt: usize,
    /// Transmit contexts.
    pub tx_ctx_cnt: usize,
    /// Receive contexts.
    pub rx_ctx_cnt: usize,
    /// Transmit contexts of one endpoint.
    pub max_ep_tx_ctx: usize,
    /// Receive contexts of one endpoint.
    pub max_ep_rx_ctx: usize,
    /// Shared transmit contexts.
    pub max_ep_stx_ctx: usize,
    /// Shared receive contexts.
    pub max_ep_srx_ctx: usize,
    /// Counters.
    pub cntr_cnt: usize,
    /// IO vector entries of one region.
    pub mr_iov_limit: usize,
    /// Domain capabilities.
    pub caps: Flags,
    /// Domain duties.
    pub mode: Mode,
    /// Authorisation key.
    pub auth_key: Vec<u8>,
    /// Its size (all ones is special).
    pub auth_key_size: usize,
    /// Bytes of error data.
    pub max_err_data: usize,
    /// Regions.
    pub mr_cnt: usize,
    /// Traffic class.
    pub tclass: u32,
    /// Authorisation keys of one endpoint.
    pub max_ep_auth_key: usize,
    /// Peer groups.
    pub max_group_id: u32,
    /// Largest counter value.
    pub max_cntr_value: u64,
    /// Largest error counter value.
    pub max_err_cntr_value: u64,
}

/// `fi_fabric_attr`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FabricAttr {
    /// Name.
    pub name: Option<String>,
    /// Provider name, layers joined with `;`.
    pub prov_name: Option<String>,
    /// Provider version.
    pub prov_version: Version,
    /// Interface version that the application asked for.
    pub api_version: Version,
}
