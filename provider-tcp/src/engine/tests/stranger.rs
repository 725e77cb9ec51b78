//! A peer that keeps to no rule: what it says is up to the test.

use fabric_core::{Errno, mem::Buffers};

use super::{
    net::{Shared, TestStream},
    node::{Node, settle},
};
use crate::{
    frame::{
        Endian,
        cm::{CM_HEADER_LEN, CmKind, CmMessage},
        extension::{Extension, Features},
        head::{HEAD_MAX, Header},
        record::{Greeting, RECORD_LEN, Record},
    },
    net::{Net, Stream},
};

/// One end of a connection to an endpoint.
pub(super) struct Stranger {
    stream: TestStream,
    id: u8,
}

/// Who it says that it is.
#[derive(Clone, Copy)]
pub(super) struct Claim {
    pub(super) port: u16,
    pub(super) nonce: u32,
    /// Of our own kind.
    pub(super) epoch: Option<u64>,
}

impl Claim {
    fn request(self, features: Features) -> CmMessage {
        let record = Record::request(self.port, self.nonce.try_into().unwrap());
        let extension = self.epoch.map(|epoch| Extension { features, ..Extension::new(epoch) });
        let greeting = Greeting { record, extension };
        CmMessage::new(CmKind::Request, greeting.user_data().as_slice()).unwrap()
    }
}

impl Stranger {
    /// Connects from the host `ip`, and says who it is.
    pub(super) fn new(shared: &Shared, ip: &str, to: &mut Node, claim: Claim) -> Self {
        Self::with(shared, ip, to, claim, Features::OPERATIONS)
    }

    /// The same with what it can do, of our own kind.
    pub(super) fn with(
        shared: &Shared,
        ip: &str,
        to: &mut Node,
        claim: Claim,
        features: Features,
    ) -> Self {
        let from = format!("{ip}:0").parse::<std::net::SocketAddr>().unwrap();
        let stream = shared.host(from.ip()).connect(None, to.name().get()).unwrap();
        let mut stranger = Self { stream, id: 0 };
        let request = claim.request(features);
        assert_eq!(stranger.give(request.bytes()), request.bytes().len());
        stranger
    }

    /// The kind of answer that it has got, if there is one.
    pub(super) fn answer(&mut self) -> Option<CmKind> {
        let mut bytes = [0; 1024];
        let n = self.take(&mut bytes).unwrap_or(0);
        let kind = *bytes[..n].get(1)?;
        let len = CM_HEADER_LEN + usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        assert!(n == len && len >= CM_HEADER_LEN + RECORD_LEN);
        [CmKind::Response, CmKind::Reject].into_iter().find(|known| *known as u8 == kind)
    }

    /// Connects as somebody whom nobody knows.
    pub(super) fn admitted(shared: &Shared, ip: &str, to: &mut Node) -> Self {
        let mut stranger = Self::new(shared, ip, to, Claim { port: 9, nonce: 7, epoch: None });
        settle(&mut [to]);
        assert_eq!(stranger.answer(), Some(CmKind::Response));
        stranger
    }

    /// How many bytes are taken.
    fn give(&mut self, bytes: &[u8]) -> usize {
        match self.stream.send(bytes, &Buffers::EMPTY, false) {
            Ok(n) => n,
            Err(reason) => {
                assert_eq!(reason, Errno::EAGAIN);
                0
            }
        }
    }

    /// Says a header and its payload. `false`: there is no room for all of it now.
    pub(super) fn say(&mut self, header: &Header, payload: &[u8]) -> bool {
        let mut bytes = [0; HEAD_MAX];
        let len = header.emit(Endian::Native, self.id, &mut bytes);
        let all = [&bytes[..len], payload].concat();
        if self.stream.room() < all.len() {
            return false;
        }
        self.id = self.id.wrapping_add(1);
        assert_eq!(self.give(&all), all.len());
        true
    }

    /// Bytes that have come; the reason if the connection has ended.
    pub(super) fn take(&mut self, bytes: &mut [u8]) -> Result<usize, Errno> {
        match self.stream.receive(&Buffers::EMPTY, bytes) {
            Ok(0) => Err(Errno::ECONNRESET),
            Err(Errno::EAGAIN) => Ok(0),
            other => other,
        }
    }

    /// Whether its connection has ended, when nothing is left to be taken.
    pub(super) fn has_ended(&mut self) -> bool {
        let mut bytes = vec![0; 1 << 16];
        loop {
            match self.take(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(_) => return true,
            }
        }
    }
}
