mod consumers;
mod offers;
mod props;
mod wrong;

use offers::{Fixed, hints, needy, shm};

use super::*;

fn ask(source: &dyn Source, hints: &Info) -> Result<Vec<Info>, NoProvider> {
    let request = Request { hints: Some(hints), ..Request::default() };
    getinfo(&[source], &request, &ProviderFilter::all())
}

#[test]
fn versions() {
    let source = Fixed::one("shm", shm());
    let at = |major, minor| {
        let request = Request { version: Version::new(major, minor), ..Request::default() };
        getinfo(&[&source], &request, &ProviderFilter::all())
    };
    let error = at(2, 7).unwrap_err();
    assert_eq!(error.errno(), Errno::ENOSYS);
    assert!(error.rejections().is_empty());
    for (major, minor) in [(0, 0), (1, 0), (1, 5), (2, 6)] {
        let info = &at(major, minor).unwrap()[0];
        assert_eq!(info.fabric.as_ref().unwrap().api_version, Version::new(major, minor));
    }
}

#[test]
fn null_hints() {
    let source = Fixed::one("shm", shm());
    let info = &getinfo(&[&source], &Request::default(), &ProviderFilter::all()).unwrap()[0];
    let domain = info.domain.as_ref().unwrap();
    assert_eq!(domain.mr_mode, crate::flags::MrMode::VIRT_ADDR);
    assert_eq!(domain.max_cntr_value, u64::MAX);
    assert_eq!(domain.control_progress, domain.progress);
    assert_eq!(info.caps, shm().caps);
    assert_eq!(info.rx.as_ref().unwrap().op_flags, Flags::COMPLETION);
}

#[test]
fn names_and_versions_only() {
    let good = Fixed::one("shm", shm());
    let bad = Fixed::none("tcp");
    let request = Request { flags: Flags::PROV_ATTR_ONLY, ..Request::default() };
    let infos = getinfo(&[&good, &bad], &request, &ProviderFilter::all()).unwrap();
    let names: Vec<_> = infos.iter().map(|i| i.fabric.clone().unwrap()).collect();
    assert_eq!(names[0].prov_name.as_deref(), Some("shm"));
    assert_eq!(names[1].prov_name.as_deref(), Some("tcp"));
    assert_eq!(names[1].prov_version, PROV_VERSION);
    assert_eq!(names[1].api_version, Version(0));

    let flags = Flags::PROV_ATTR_ONLY | Flags::NUMERICHOST;
    let infos = getinfo(&[&good], &Request { flags, ..request }, &ProviderFilter::all()).unwrap();
    assert!(!infos[0].caps.is_empty());
}

/// Who could not look might have fitted; whoever fits does all the same.
#[test]
fn a_shortage_is_told_from_the_lack_of_a_provider() {
    struct Blind(Errno);
    impl Source for Blind {
        fn name(&self) -> &str {
            "blind"
        }
        fn offers(&self, _: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
            Err(Box::new(Rejection::blind("blind", "devices", "no list", self.0, "allow it")))
        }
    }
    let ask = |sources: &[&dyn Source]| {
        getinfo(sources, &Request::default(), &ProviderFilter::all()).map_err(|e| e.errno())
    };
    let (good, none) = (Fixed::one("shm", shm()), Fixed::none("verbs"));
    assert_eq!(ask(&[&none, &Blind(Errno::EMFILE)]).unwrap_err(), Errno::EMFILE);
    assert!(last_report().iter().any(|rejection| rejection.to_string().contains("ulimit -n")));
    assert_eq!(ask(&[&none, &Blind(Errno::EPERM)]).unwrap_err(), Errno::ENODATA);
    assert!(last_report().iter().any(|rejection| rejection.fix == "allow it"));
    assert_eq!(ask(&[&Blind(Errno::EMFILE), &good]).unwrap().len(), 1);
}

#[test]
fn one_bad_provider_spoils_nothing() {
    struct Panics;
    impl Source for Panics {
        fn name(&self) -> &str {
            "broken"
        }
        fn offers(&self, _: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
            panic!("a bug in a provider")
        }
    }
    let good = Fixed::one("shm", shm());
    let none = Fixed::none("verbs");
    let sources: [&dyn Source; 3] = [&Panics, &none, &good];
    let infos = getinfo(&sources, &Request::default(), &ProviderFilter::all()).unwrap();
    assert_eq!(infos.len(), 1);
    let report = last_report();
    assert_eq!(report[0].provider, "broken");
    assert_eq!(report[1].attribute, "device");

    let error = getinfo(&sources[..2], &Request::default(), &ProviderFilter::all()).unwrap_err();
    assert_eq!(error.errno(), Errno::ENODATA);
    assert!(error.to_string().contains("no device"), "{error}");
}

#[test]
fn the_filter_is_applied_and_explained() {
    let source = Fixed::one("shm", shm());
    let error = getinfo(&[&source], &Request::default(), &ProviderFilter::parse("")).unwrap_err();
    assert_eq!(error.rejections()[0].attribute, "FI_PROVIDER");
    assert_eq!(error.rejections(), last_report());
    let filter = ProviderFilter::parse("shm");
    assert!(getinfo(&[&source], &Request::default(), &filter).is_ok());
    assert!(last_report().is_empty());
}

#[test]
fn nearest_miss_first() {
    let far = Fixed::one("far", Info { caps: Flags::MSG, ..needy() });
    let near = Fixed::one("shm", shm());
    let none = Fixed::none("verbs");
    let mut wish = hints();
    wish.caps = Flags::TAGGED | Flags::REMOTE_COMM;
    let request = Request { hints: Some(&wish), ..Request::default() };
    let error = getinfo(&[&none, &far, &near], &request, &ProviderFilter::all()).unwrap_err();
    let order: Vec<_> = error.rejections().iter().map(|r| r.provider.as_str()).collect();
    assert_eq!(order.first(), Some(&"shm"));
    assert_eq!(order.last(), Some(&"verbs"));
    assert_eq!(error.rejections()[0].fix, "do without FI_REMOTE_COMM");
}

/// What only the variable hides comes before what does not fit, and that before what is hidden and
/// would not fit either; devices are left alone.
#[test]
fn nearest_miss_first_where_the_variable_hides_some() {
    struct Devices;
    impl Source for Devices {
        fn name(&self) -> &str {
            "verbs"
        }
        fn touches_devices(&self) -> bool {
            true
        }
        fn offers(&self, _: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
            unreachable!("the user does not want it")
        }
    }
    let fitting = Fixed::one("tcp", named("tcp", shm()));
    let unfit = Fixed::one("far", Info { caps: Flags::MSG, ..named("far", needy()) });
    let shown = Fixed::one("shm", Info { caps: Flags::MSG, ..shm() });
    let mut wish = hints();
    wish.caps = Flags::TAGGED;
    wish.fabric = None;
    wish.domain.as_mut().unwrap().name = None;
    let request = Request { hints: Some(&wish), ..Request::default() };
    let order = |filter: &str| {
        let filter = ProviderFilter::parse(filter);
        let sources: [&dyn Source; 4] = [&Devices, &unfit, &shown, &fitting];
        let error = getinfo(&sources, &request, &filter).unwrap_err();
        error.rejections().iter().map(|r| r.provider.clone()).collect::<Vec<_>>()
    };
    assert_eq!(order("shm"), ["tcp", "shm", "verbs", "far"]);
    assert_eq!(order("shmm"), ["core", "tcp", "verbs", "far", "shm"]);
}

fn named(name: &str, mut info: Info) -> Info {
    info.fabric.get_or_insert_default().prov_name = Some(name.to_owned());
    info
}

#[test]
fn a_layer_alone_is_no_provider() {
    let over = Fixed::one("far;ofi_rxm", shm());
    let filter = ProviderFilter::parse("ofi_rxm");
    let error = getinfo(&[&over], &Request::default(), &filter).unwrap_err();
    let first = &error.rejections()[0];
    assert_eq!((first.attribute, first.offered.as_str()), ("FI_PROVIDER", "far;ofi_rxm"));
    assert!(first.fix.contains("as in 'far;ofi_rxm'"), "{first}");
    assert!(ProviderFilter::parse("far;ofi_rxm,^x").bare_layer().is_none());
    assert!(ProviderFilter::parse("^ofi_rxm").bare_layer().is_none());
}

#[test]
fn addresses_of_the_hints() {
    let source = Fixed::one("shm", shm());
    let mut wish = hints();
    wish.src_addr = b"fi_shm://me\0".to_vec();
    wish.dest_addr = b"fi_shm://you\0".to_vec();
    let answer = |node, flags| {
        let request = Request { node, flags, hints: Some(&wish), ..Request::default() };
        getinfo(&[&source], &request, &ProviderFilter::all()).unwrap().remove(0)
    };
    let info = answer(None, Flags::empty());
    assert_eq!((info.src_addr, info.dest_addr), (wish.src_addr.clone(), wish.dest_addr.clone()));
    let info = answer(Some("x"), Flags::empty());
    assert_eq!((info.src_addr, info.dest_addr), (wish.src_addr.clone(), vec![]));
    let info = answer(Some("x"), Flags::SOURCE);
    assert_eq!((info.src_addr, info.dest_addr), (vec![], wish.dest_addr.clone()));
}

#[test]
fn names_that_nobody_has() {
    let good = Fixed::one("shm", shm());
    let none = Fixed::none("tcp");
    let sources: [&dyn Source; 2] = [&none, &good];
    let mut wish = hints();
    wish.fabric.get_or_insert_default().prov_name = Some("shmm".into());
    let request = Request { hints: Some(&wish), ..Request::default() };
    let error = getinfo(&sources, &request, &ProviderFilter::all()).unwrap_err();
    let [only] = error.rejections() else { panic!("{error}") };
    assert_eq!((only.attribute, only.wanted.as_str()), ("fabric_attr.prov_name", "shmm"));
    assert_eq!(only.offered, "tcp, shm");
    assert!(only.fix.ends_with("did you mean shm?"), "{only}");

    let filter = ProviderFilter::parse("nonsense");
    let error = getinfo(&sources, &Request::default(), &filter).unwrap_err();
    assert_eq!((error.rejections()[0].attribute, error.rejections().len()), ("FI_PROVIDER", 3));

    // One that is named and cannot be used: its own reason, and nothing of the others.
    wish.fabric.get_or_insert_default().prov_name = Some("tcp".into());
    let request = Request { hints: Some(&wish), ..Request::default() };
    let error = getinfo(&sources, &request, &ProviderFilter::all()).unwrap_err();
    let [only] = error.rejections() else { panic!("{error}") };
    assert_eq!(only.provider, "tcp");
}

/// What this release lacks is no news to who does not ask for it.
#[test]
fn a_provider_that_is_not_included_is_silent_unless_it_is_named() {
    struct Absent;
    impl Source for Absent {
        fn name(&self) -> &str {
            "verbs"
        }
        fn included(&self) -> bool {
            false
        }
        fn offers(&self, _: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
            Err(Box::new(Rejection::unavailable("verbs", "provider", "nothing", "wait")))
        }
    }
    let shm = Fixed::one("shm", shm());
    let sources: [&dyn Source; 2] = [&Absent, &shm];
    let about = |filter: &str, name: Option<&str>| {
        let mut wish = hints();
        wish.fabric.get_or_insert_default().prov_name = name.map(str::to_owned);
        let request = Request { hints: Some(&wish), ..Request::default() };
        let _ = getinfo(&sources, &request, &ProviderFilter::parse(filter));
        last_report().iter().map(|r| (r.provider.clone(), r.offered.clone())).collect::<Vec<_>>()
    };
    let pair = |provider: &str, offered: &str| (provider.to_owned(), offered.to_owned());
    assert_eq!(about("^", None), []);
    assert_eq!(about("^tcpp", None), [pair("core", "shm")]);
    assert_eq!(about("verbs,shm", None), [pair("verbs", "nothing")]);
    assert_eq!(about("^", Some("verbs")), [pair("verbs", "nothing")]);
}

#[test]
fn the_fix_for_a_hidden_provider_fits_the_list() {
    let source = Fixed::one("shm", shm());
    let fix = |filter: &str| {
        let filter = ProviderFilter::parse(filter);
        let error = getinfo(&[&source], &Request::default(), &filter).unwrap_err();
        error.rejections().last().unwrap().fix.clone()
    };
    assert!(fix("^shm").contains("begins with ^"));
    assert!(fix("tcp").starts_with("name the provider"));
    assert!(fix("").contains("empty"));
}

#[test]
fn reasons_tell_the_domains_that_they_hold_for() {
    let offer = |domain: &str| {
        let mut info = needy();
        info.domain.as_mut().unwrap().name = Some(domain.to_owned());
        info
    };
    let source = Fixed::many("far", vec![offer("eth0"), offer("eth1")]);
    let mut wish = needy();
    wish.domain.as_mut().unwrap().name = None;
    wish.caps = Flags::HMEM;
    let error = ask(&source, &wish).unwrap_err();
    let caps: Vec<_> = error.rejections().iter().filter(|r| r.attribute == "caps").collect();
    assert_eq!(caps.len(), 1, "{error}");
    assert_eq!(caps[0].domains, ["eth0", "eth1"]);
    assert!(caps[0].subject().ends_with(" on eth0, eth1)"), "{}", caps[0]);
}

/// Where a shared receive context has what is missed, the reason says so.
#[test]
fn a_shared_context_is_the_way_to_tags() {
    struct Connected(Info);
    impl Source for Connected {
        fn name(&self) -> &str {
            "far"
        }
        fn gained_by_sharing(&self) -> Flags {
            Flags::TAGGED
        }
        fn offers(&self, _: &Request<'_>) -> Result<Vec<Info>, Box<Rejection>> {
            Ok(vec![self.0.clone()])
        }
    }
    let mut offer = needy();
    offer.ep.as_mut().unwrap().ep_type = EpType::Msg as u32;
    offer.caps -= Flags::TAGGED;
    let fix = |caps: Flags| {
        let wish = Info { caps, ..Info::default() };
        let error = ask(&Connected(offer.clone()), &wish).unwrap_err();
        error.rejections().iter().find(|r| r.attribute == "caps").unwrap().fix.clone()
    };
    assert!(fix(Flags::TAGGED).contains("FI_SHARED_CONTEXT"));
    assert!(fix(Flags::TAGGED | Flags::HMEM).starts_with("do without"));
}
