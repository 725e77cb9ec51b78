//! HOT. Reliable datagrams over connected endpoints, in the protocol of `ofi_rxm`.
//!
//! An endpoint has one connection with each peer, opened on first use, and sends its messages over
//! it as [packets](packet). Any provider whose connections carry whole messages can be beneath.

pub mod packet;
pub mod record;
