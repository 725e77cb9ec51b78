//! Bit sets of the C interface. Unknown bits given by an application are kept, so that checks can
//! name them.
//!
//! Capabilities, operation flags and completion flags share one 64-bit space and therefore one
//! type; the few bits with several meanings are named once for each meaning.

use bitflags::bitflags;

bitflags! {
    /// Capabilities, operation flags and completion flags (`fi_getinfo(3)`, `fi_cq(3)`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u64 {
        /// Untagged messages.
        const MSG = 1 << 1;
        /// One-sided reads and writes.
        const RMA = 1 << 2;
        /// Tagged messages.
        const TAGGED = 1 << 3;
        /// Atomic operations on remote memory.
        const ATOMIC = 1 << 4;
        /// Multicast.
        const MULTICAST = 1 << 5;
        /// Collective operations.
        const COLLECTIVE = 1 << 6;
        /// May start reads.
        const READ = 1 << 8;
        /// May start writes.
        const WRITE = 1 << 9;
        /// May receive.
        const RECV = 1 << 10;
        /// May send (also spelled transmit).
        const SEND = 1 << 11;
        /// May be read by peers.
        const REMOTE_READ = 1 << 12;
        /// May be written by peers.
        const REMOTE_WRITE = 1 << 13;
        /// One buffer receives many messages.
        const MULTI_RECV = 1 << 16;
        /// Data travels to the target's completion.
        const REMOTE_CQ_DATA = 1 << 17;
        /// More operations follow at once.
        const MORE = 1 << 18;
        /// Look at a message without receiving it.
        const PEEK = 1 << 19;
        /// Triggered operations.
        const TRIGGER = 1 << 20;
        /// Wait for earlier operations to the same peer.
        const FENCE = 1 << 21;
        /// Report this operation (also `FI_EVENT`).
        const COMPLETION = 1 << 24;
        /// The buffer may be reused when the call returns.
        const INJECT = 1 << 25;
        /// Complete when the buffer may be reused.
        const INJECT_COMPLETE = 1 << 26;
        /// Complete when the peer endpoint has it.
        const TRANSMIT_COMPLETE = 1 << 27;
        /// Complete when the peer has processed it.
        const DELIVERY_COMPLETE = 1 << 28;
        /// Affinity hint.
        const AFFINITY = 1 << 29;
        /// Complete when durable.
        const COMMIT_COMPLETE = 1 << 30;
        /// Complete when matched.
        const MATCH_COMPLETE = 1 << 31;
        /// Scan the hardware again.
        const RESCAN = 1 << 35;
        /// Owner and peer provider share a transfer.
        const PEER_TRANSFER = 1 << 36;
        /// Addresses carry ids of the application.
        const AV_USER_ID = 1 << 41;
        /// Endpoint behind a firewall.
        const FIREWALL_ADDR = 1 << 42;
        /// Peer provider interface.
        const PEER = 1 << 43;
        /// Directed receive for tagged messages only.
        const TAGGED_DIRECTED_RECV = 1 << 45;
        /// Multi-receive for tagged messages.
        const TAGGED_MULTI_RECV = 1 << 46;
        /// Device memory.
        const HMEM = 1 << 47;
        /// Directed receive without wildcards.
        const EXACT_DIRECTED_RECV = 1 << 48;
        /// Persistent memory.
        const RMA_PMEM = 1 << 49;
        /// Unknown sources become error entries.
        const SOURCE_ERR = 1 << 50;
        /// Peers on the same host.
        const LOCAL_COMM = 1 << 51;
        /// Peers on other hosts.
        const REMOTE_COMM = 1 << 52;
        /// Shared address vectors.
        const SHARED_AV = 1 << 53;
        /// `fi_getinfo`: names and versions only.
        const PROV_ATTR_ONLY = 1 << 54;
        /// `fi_getinfo`: the node is numeric.
        const NUMERICHOST = 1 << 55;
        /// Target-side events of one-sided operations.
        const RMA_EVENT = 1 << 56;
        /// Receives report the sender.
        const SOURCE = 1 << 57;
        /// Named receive contexts.
        const NAMED_RX_CTX = 1 << 58;
        /// Receives may name their sender.
        const DIRECTED_RECV = 1 << 59;
        /// Operation flag: receive the message claimed before.
        const CLAIM = 1 << 59;
        /// Operation flag: drop the message.
        const DISCARD = 1 << 58;
        /// Bind flag: completions only where asked for.
        const SELECTIVE_COMPLETION = 1 << 59;
        /// AV insert flag: per-entry errors through the context.
        const SYNC_ERR = 1 << 58;
        /// Atomic query: the fetching family.
        const FETCH_ATOMIC = 1 << 58;
        /// Atomic query: the comparing family.
        const COMPARE_ATOMIC = 1 << 59;
        const _ = !0;
    }

    /// Duties of the application (`mode` of `fi_info`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Mode: u64 {
        /// Contexts have two words of provider scratch space.
        const CONTEXT = 1 << 59;
        /// Room for a header in front of each buffer.
        const MSG_PREFIX = 1 << 58;
        /// IO vectors stay valid until completion.
        const ASYNC_IOV = 1 << 57;
        /// Remote CQ data consumes a receive.
        const RX_CQ_DATA = 1 << 56;
        /// Legacy spelling of `MrMode::LOCAL`.
        const LOCAL_MR = 1 << 55;
        /// Contexts have eight words of provider scratch space.
        const CONTEXT2 = 1 << 52;
        const _ = !0;
    }

    /// Duties of the application towards registered memory (`fi_mr(3)`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct MrMode: u32 {
        /// Legacy: virtual addresses, allocated, provider keys.
        const BASIC = 1 << 0;
        /// Legacy: offsets, application keys.
        const SCALABLE = 1 << 1;
        /// Local buffers are registered too.
        const LOCAL = 1 << 2;
        /// Keys are exchanged in raw form.
        const RAW = 1 << 3;
        /// Peers use virtual addresses.
        const VIRT_ADDR = 1 << 4;
        /// Pages exist when registered.
        const ALLOCATED = 1 << 5;
        /// The provider chooses keys.
        const PROV_KEY = 1 << 6;
        /// The application tells of mapping changes.
        const MMU_NOTIFY = 1 << 7;
        /// Regions with events are bound and enabled.
        const RMA_EVENT = 1 << 8;
        /// Regions are bound to endpoints and enabled.
        const ENDPOINT = 1 << 9;
        /// Device memory is registered.
        const HMEM = 1 << 10;
        /// Collective buffers are registered.
        const COLLECTIVE = 1 << 11;
        const _ = !0;
    }

    /// Ordering guarantees (`msg_order`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Order: u64 {
        /// Read after read.
        const RAR = 1 << 0;
        /// Read after write.
        const RAW = 1 << 1;
        /// Read after send.
        const RAS = 1 << 2;
        /// Write after read.
        const WAR = 1 << 3;
        /// Write after write.
        const WAW = 1 << 4;
        /// Write after send.
        const WAS = 1 << 5;
        /// Send after read.
        const SAR = 1 << 6;
        /// Send after write.
        const SAW = 1 << 7;
        /// Send after send.
        const SAS = 1 << 8;
        /// RMA read after read.
        const RMA_RAR = 1 << 32;
        /// RMA read after write.
        const RMA_RAW = 1 << 33;
        /// RMA write after read.
        const RMA_WAR = 1 << 34;
        /// RMA write after write.
        const RMA_WAW = 1 << 35;
        /// Atomic read after read.
        const ATOMIC_RAR = 1 << 36;
        /// Atomic read after write.
        const ATOMIC_RAW = 1 << 37;
        /// Atomic write after read.
        const ATOMIC_WAR = 1 << 38;
        /// Atomic write after write.
        const ATOMIC_WAW = 1 << 39;
        const _ = !0;
    }
}
