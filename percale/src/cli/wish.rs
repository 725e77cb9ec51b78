//! Wishes on the command line, and the hints that they make.

use percale::{
    Info, all_duties,
    attr::{API_VERSION, EpType, Progress, SHARED_CONTEXT, Threading, Version},
    flags::{Flags, MrMode},
};

/// What an offer has to satisfy.
#[derive(clap::Args)]
pub(crate) struct Wish {
    /// Provider, with layers: tcp, "tcp;ofi_rxm"
    #[arg(short, long, value_name = "NAME")]
    provider: Option<String>,
    /// Capabilities, as in msg,tagged,remote_comm
    #[arg(long, value_name = "LIST", value_parser = caps, default_value = "", hide_default_value = true)]
    caps: Flags,
    /// Endpoint type
    #[arg(long, value_name = "TYPE", value_parser = ["msg", "dgram", "rdm"])]
    ep_type: Option<String>,
    /// Receive from a context that endpoints share (FI_SHARED_CONTEXT)
    #[arg(long)]
    shared_rx: bool,
    /// Registration duties that the program takes on, as in local,prov_key; all when not given
    #[arg(long, value_name = "LIST", value_parser = mr_mode)]
    mr_mode: Option<MrMode>,
    /// How calls are serialised
    #[arg(long, value_name = "LEVEL", value_parser = ["safe", "completion", "domain"])]
    threading: Option<String>,
    /// Who moves operations forward
    #[arg(long, value_name = "KIND", value_parser = ["auto", "manual", "control_unified"])]
    progress: Option<String>,
    /// Domain, an interface or device name
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// Interface version whose rules hold
    #[arg(long = "api-version", value_name = "MAJOR.MINOR", value_parser = version, default_value_t = API_VERSION)]
    pub(crate) version: Version,
}

impl Wish {
    /// Whether nothing is wished for.
    pub(crate) fn is_empty(&self) -> bool {
        self.caps.is_empty()
            && !self.shared_rx
            && self.mr_mode.is_none()
            && [&self.provider, &self.ep_type, &self.threading, &self.progress, &self.domain]
                .iter()
                .all(|text| text.is_none())
    }

    /// As programs give them that take every duty on.
    pub(crate) fn hints(&self) -> Info {
        let mut hints = Info { caps: self.caps, ..Info::default() };
        all_duties(&mut hints, self.version);
        let domain = hints.domain.get_or_insert_default();
        if let Some(mr_mode) = self.mr_mode {
            domain.mr_mode = mr_mode;
        }
        domain.name.clone_from(&self.domain);
        domain.threading = match self.threading.as_deref() {
            Some("safe") => Threading::Safe,
            Some("completion") => Threading::Completion,
            Some("domain") => Threading::Domain,
            _ => Threading::Unspec,
        } as u32;
        domain.progress = match self.progress.as_deref() {
            Some("auto") => Progress::Auto,
            Some("manual") => Progress::Manual,
            Some("control_unified") => Progress::ControlUnified,
            _ => Progress::Unspec,
        } as u32;
        hints.ep.get_or_insert_default().ep_type = match self.ep_type.as_deref() {
            Some("msg") => EpType::Msg,
            Some("dgram") => EpType::Dgram,
            Some("rdm") => EpType::Rdm,
            _ => EpType::Unspec,
        } as u32;
        if self.shared_rx {
            hints.ep.get_or_insert_default().rx_ctx_cnt = SHARED_CONTEXT;
        }
        hints.fabric.get_or_insert_default().prov_name.clone_from(&self.provider);
        hints
    }
}

fn caps(text: &str) -> Result<Flags, String> {
    bits(text, "FI_", Flags::from_name)
}

fn mr_mode(text: &str) -> Result<MrMode, String> {
    bits(text, "FI_MR_", MrMode::from_name)
}

/// A list of names, in any case, with or without the C prefix.
fn bits<B>(text: &str, prefix: &str, find: impl Fn(&str) -> Option<B>) -> Result<B, String>
where
    B: Default + std::ops::BitOr<Output = B>,
{
    text.split([',', '|', ' ']).filter(|word| !word.is_empty()).try_fold(
        B::default(),
        |all, word| {
            let upper = word.to_ascii_uppercase();
            let name = upper.strip_prefix(prefix).unwrap_or(&upper);
            find(name).map(|bit| all | bit).ok_or_else(|| format!("there is no {prefix}{name}"))
        },
    )
}

fn version(text: &str) -> Result<Version, String> {
    let parts = text
        .split_once('.')
        .and_then(|(major, minor)| Some(Version::new(major.parse().ok()?, minor.parse().ok()?)));
    parts.ok_or_else(|| "a version looks like 1.18".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(caps("fi_msg, Tagged"), Ok(Flags::MSG | Flags::TAGGED));
        assert_eq!(caps(""), Ok(Flags::empty()));
        assert!(caps("msg,nonsense").unwrap_err().contains("FI_NONSENSE"));
        assert_eq!(mr_mode("local|prov_key"), Ok(MrMode::LOCAL | MrMode::PROV_KEY));
        assert_eq!(version("1.18"), Ok(Version::new(1, 18)));
        assert!(version("1.x").is_err() && version("7").is_err());
    }
}
