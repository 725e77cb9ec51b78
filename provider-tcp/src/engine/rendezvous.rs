//! PENDING. Large tagged messages: announced first, so that their bytes travel when their place is
//! known.

use fabric_core::{
    Errno,
    inbox::{Arrival, Receive},
    lock::Lock,
    matching::{Key, PeerId},
    slab::Handle,
};

use super::{
    Body, Core,
    conn::{Asked, Conn, Control, Sink},
    pressure::ASKED_MAX,
    receive::{Broken, arrival, wants_ack},
};
use crate::frame::head::{HeadFlags, Header, RtsIndex};

impl<L: Lock> Core<L> {
    /// The peer announces a message.
    pub(super) fn handle_rts<S>(
        &mut self,
        me: Handle,
        conn: &mut Conn<S>,
        header: &Header,
    ) -> Result<(), Broken> {
        let index = header.index().ok_or(Errno::EPROTO)?;
        let too_many = conn.offered.len() >= ASKED_MAX;
        if !conn.rendezvous || too_many || !conn.offered.insert(index) {
            return Err(Errno::EPROTO);
        }
        let ack = wants_ack(header);
        let (ep, context) = self.receiver(conn.ep).ok_or(Errno::EPROTO)?;
        let sender = context.sender(conn.ep, conn.peer);
        let arrival = arrival(sender, header, header.message_len());
        ep.stats.received += 1;
        match context.inbox.take_receive(&arrival) {
            Some(receive) => self.ask(conn, index, receive, arrival, ack, true),
            None => {
                ep.stats.unexpected += 1;
                context.inbox.keep(&arrival, Body::Announced { conn: me, index, ack });
            }
        }
        Ok(())
    }

    /// Asks for the bytes of an announced message, whose receive was `posted` before it was announced.
    pub(super) fn ask<S>(
        &mut self,
        conn: &mut Conn<S>,
        index: RtsIndex,
        receive: Receive,
        arrival: Arrival,
        ack: bool,
        posted: bool,
    ) {
        conn.asked.insert(index, Asked { receive: Some(receive), arrival, ack });
        let mut header = Header::cts(index);
        if posted && conn.tells_posted {
            header = header.with_flags(HeadFlags::POSTED);
        }
        conn.tx.control.push_back(Control::Head(header));
    }

    /// Asks for the bytes of an announced message that nobody wants.
    pub(super) fn ask_and_drop<S>(
        &mut self,
        conn: &mut Conn<S>,
        index: RtsIndex,
        len: usize,
        ack: bool,
    ) {
        let key = Key { tagged: true, peer: conn.peer as PeerId, tag: 0 };
        let arrival = Arrival { key, len, data: None };
        conn.asked.insert(index, Asked { receive: None, arrival, ack });
        conn.tx.control.push_back(Control::Head(Header::cts(index)));
    }

    /// The peer asks for the bytes of a message that we announced.
    pub(super) fn handle_cts<S>(
        &mut self,
        conn: &mut Conn<S>,
        header: &Header,
    ) -> Result<(), Broken> {
        let index = header.index().ok_or(Errno::EPROTO)?;
        let op = conn.announced.remove(&index).ok_or(Errno::EPROTO)?;
        let posted = conn.tells_posted && header.flags().contains(HeadFlags::POSTED);
        conn.tx.trust.learn(posted);
        conn.tx.control.push_back(Control::Announced { index, op });
        Ok(())
    }

    /// The bytes that we asked for.
    pub(super) fn begin_data<S>(
        &mut self,
        conn: &mut Conn<S>,
        header: &Header,
    ) -> Result<Sink, Broken> {
        let index = header.index().ok_or(Errno::EPROTO)?;
        let Asked { receive, arrival, ack } = *conn.asked.get(&index).ok_or(Errno::EPROTO)?;
        if header.payload_len() != arrival.len {
            // The receive has not begun, and ends with the connection.
            return Err(Errno::EPROTO);
        }
        conn.asked.remove(&index);
        conn.offered.remove(&index);
        Ok(match receive {
            Some(receive) => Sink::Receive { receive, arrival, ack },
            None => Sink::Drop { ack },
        })
    }
}
