//! SETUP. The C structs that objects start with.

use crate::abi::{
    Plain,
    collective::{fi_ops_av_set, fi_ops_collective},
    constants::{FI_ADDR_NOTAVAIL, FI_KEY_NOTAVAIL},
    data_ops::{fi_ops_atomic, fi_ops_msg, fi_ops_rma, fi_ops_tagged},
    ext::{fid_connreq, fid_logging, fid_mr_cache, fid_percale_explain},
    fid::{
        fi_ops, fid, fid_av, fid_av_set, fid_cntr, fid_cq, fid_domain, fid_ep, fid_eq, fid_fabric,
        fid_mc, fid_mr, fid_pep, fid_poll, fid_stx, fid_wait,
    },
    ops::{
        fi_ops_av, fi_ops_cm, fi_ops_cntr, fi_ops_cq, fi_ops_domain, fi_ops_ep, fi_ops_eq,
        fi_ops_fabric, fi_ops_mr, fi_ops_poll, fi_ops_wait,
    },
};

/// A C struct that an object starts with.
///
/// # Safety
/// The struct's first field is a `fid`.
pub unsafe trait Head: Plain {
    /// The struct of a closed object: class 0, every table refusing with `-FI_EINVAL`.
    fn closed() -> Self;

    /// Its first field.
    fn fid_mut(&mut self) -> &mut fid;
}

macro_rules! heads {
    ($($head:ident { $($field:ident: $value:expr),* $(,)? })*) => {$(
        // SAFETY: the struct starts with `fid`, as the layout test proves.
        unsafe impl Head for $head {
            fn closed() -> Self {
                let mut closed = Self::zeroed();
                closed.fid.ops = fi_ops::closed();
                $(closed.$field = $value;)*
                closed
            }

            fn fid_mut(&mut self) -> &mut fid {
                &mut self.fid
            }
        }

        const _: () = assert!(core::mem::offset_of!($head, fid) == 0);
    )*};
}

heads! {
    fid_fabric { ops: fi_ops_fabric::closed() }
    fid_domain { ops: fi_ops_domain::closed(), mr: fi_ops_mr::closed() }
    fid_ep {
        ops: fi_ops_ep::closed(),
        cm: fi_ops_cm::closed(),
        msg: fi_ops_msg::closed(),
        rma: fi_ops_rma::closed(),
        tagged: fi_ops_tagged::closed(),
        atomic: fi_ops_atomic::closed(),
        collective: fi_ops_collective::closed(),
    }
    fid_pep { ops: fi_ops_ep::closed(), cm: fi_ops_cm::closed() }
    fid_stx { ops: fi_ops_ep::closed() }
    fid_av { ops: fi_ops_av::closed() }
    fid_av_set { ops: fi_ops_av_set::closed() }
    fid_cq { ops: fi_ops_cq::closed() }
    fid_cntr { ops: fi_ops_cntr::closed() }
    fid_eq { ops: fi_ops_eq::closed() }
    fid_wait { ops: fi_ops_wait::closed() }
    fid_poll { ops: fi_ops_poll::closed() }
    fid_mr { key: FI_KEY_NOTAVAIL }
    fid_mc { fi_addr: FI_ADDR_NOTAVAIL }
    fid_connreq {}
    fid_mr_cache {}
    fid_logging {}
    fid_percale_explain { text: c"".as_ptr() }
}
