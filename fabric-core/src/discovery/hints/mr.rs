//! SETUP. Registration duties (`mr_mode`), with the two legacy words and the rules before 1.5.
//!
//! Whatever comes out of here is what the library does: virtual addresses with VIRT_ADDR or
//! BASIC, keys of its own with PROV_KEY or BASIC, offsets and the application's keys else.

use super::{
    super::{Names, Request},
    caps::TARGET,
    check::Check,
};
use crate::{
    attr::Info,
    flags::{Flags, Mode, MrMode},
};

/// What the legacy BASIC stands for.
const BASIC_SET: MrMode = MrMode::VIRT_ADDR.union(MrMode::ALLOCATED).union(MrMode::PROV_KEY);
/// Duties that only the target of one-sided operations has.
const TARGET_SET: MrMode =
    MrMode::RAW.union(MrMode::VIRT_ADDR).union(MrMode::PROV_KEY).union(MrMode::RMA_EVENT);
const LEGACY: MrMode = MrMode::BASIC.union(MrMode::SCALABLE);
const ATTRIBUTE: &str = "domain_attr.mr_mode";

/// The outcome: duties, and the capabilities that are left.
pub(super) struct Duty {
    pub(super) mr_mode: MrMode,
    pub(super) mode: Mode,
    pub(super) caps: Flags,
}

/// Settles the duties for hints whose granted capabilities are `caps`.
pub(super) fn resolve(
    info: &Info,
    hints: &Info,
    request: &Request<'_>,
    caps: Flags,
    check: &mut Check,
) -> Duty {
    let offered = offered(info);
    let wish = hints.domain.as_ref().map_or(MrMode::empty(), |d| d.mr_mode);
    let modern = request.at_least(1, 5);
    let spoiled = if modern {
        wish.intersects(LEGACY) && wish != MrMode::BASIC && wish != MrMode::SCALABLE
    } else {
        !matches!(wish, MrMode::BASIC | MrMode::SCALABLE) && !wish.is_empty()
    };
    if spoiled {
        let fix = if modern {
            "FI_MR_BASIC and FI_MR_SCALABLE stand alone"
        } else {
            "before interface 1.5 this is 0, FI_MR_BASIC or FI_MR_SCALABLE; ask for 1.5 or newer"
        };
        check.refuse(ATTRIBUTE, Names("FI_MR_", wish), Names("FI_MR_", offered), fix);
        return Duty { mr_mode: MrMode::empty(), mode: Mode::empty(), caps };
    }
    if !modern || wish.intersects(LEGACY) {
        legacy(offered, wish, hints, caps, check)
    } else {
        bits(offered, wish, hints, caps, check)
    }
}

/// The duties that NULL hints are told.
pub(super) fn unasked(info: &Info, request: &Request<'_>) -> Duty {
    let offered = offered(info);
    if request.at_least(1, 5) {
        return Duty { mr_mode: offered, mode: Mode::empty(), caps: info.caps };
    }
    Duty { mr_mode: MrMode::BASIC, mode: local_mode(offered), caps: info.caps }
}

fn offered(info: &Info) -> MrMode {
    info.domain.as_ref().map_or(MrMode::empty(), |d| d.mr_mode)
}

/// One of the legacy words, or nothing before 1.5, where BASIC is what every provider can do.
/// Local registration was a bit of `mode` then; other duties had no word.
fn legacy(offered: MrMode, wish: MrMode, hints: &Info, caps: Flags, check: &mut Check) -> Duty {
    let required = required(offered, caps);
    let word = if wish.is_empty() { MrMode::BASIC } else { wish };
    let covered = if word == MrMode::BASIC { BASIC_SET } else { MrMode::empty() };
    let mode = local_mode(required);
    let rest = required.difference(covered | MrMode::LOCAL);
    if !rest.is_empty() {
        let fix = if BASIC_SET.contains(rest) {
            "use FI_MR_BASIC, or name the bits one by one from interface 1.5 on"
        } else {
            "name the bits one by one, from interface 1.5 on"
        };
        check.refuse(ATTRIBUTE, Names("FI_MR_", wish), Names("FI_MR_", required), fix);
    } else if !hints.mode.contains(mode) {
        check.duties("mode", hints.mode, mode);
    }
    Duty { mr_mode: word, mode, caps }
}

/// Bits, from 1.5 on. A zero wish gives up being a target rather than failing.
fn bits(offered: MrMode, wish: MrMode, hints: &Info, mut caps: Flags, check: &mut Check) -> Duty {
    let mut needed = required(offered, caps);
    let gives_up =
        wish.is_empty() && needed.intersects(TARGET_SET) && !hints.caps.intersects(TARGET);
    if gives_up {
        caps -= TARGET;
        needed = required(offered, caps);
    }
    if !wish.contains(needed) {
        let missing = Names("FI_MR_", needed.difference(wish));
        check.refuse(
            ATTRIBUTE,
            Names("FI_MR_", wish),
            Names("FI_MR_", needed),
            format!("add {missing} if the program registers memory that way"),
        );
    }
    Duty { mr_mode: needed, mode: Mode::empty(), caps }
}

/// What remains of the offered duties for these capabilities.
fn required(offered: MrMode, caps: Flags) -> MrMode {
    let one_sided = caps.intersects(Flags::RMA | Flags::ATOMIC);
    if one_sided && caps.intersects(TARGET) {
        offered
    } else if offered.intersects(MrMode::LOCAL | MrMode::HMEM) {
        offered.difference(TARGET_SET)
    } else {
        MrMode::empty()
    }
}

fn local_mode(offered: MrMode) -> Mode {
    if offered.contains(MrMode::LOCAL) { Mode::LOCAL_MR } else { Mode::empty() }
}
