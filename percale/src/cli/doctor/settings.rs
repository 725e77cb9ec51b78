//! The variables: names that nearly are ones, values that are not taken, providers that do not exist.

use percale::param::{Where, faults, suspects};

use super::{super::env, Finding, State};

const CHECK: &str = "settings";

pub(super) fn check() -> Finding {
    let mut wrong = Vec::new();
    let mut set = 0;
    for state in env::states() {
        if let Some(refused) = state.refused {
            wrong.push(format!("{}: {refused}", state.known.name));
        }
        set += usize::from(state.setting.is_some_and(|setting| setting.origin != Where::Default));
    }
    for suspect in suspects() {
        let (name, origin, meant) = (suspect.name, suspect.origin, suspect.meant);
        wrong.push(format!("{name} ({origin}) is read by nobody; did you mean {meant}?"));
    }
    wrong.extend(faults().iter().map(|fault| format!("{}: {fault}", Where::File)));
    if wrong.is_empty() {
        let found = match set {
            0 => "all variables have their defaults".to_owned(),
            1 => "one variable is set".to_owned(),
            many => format!("{many} variables are set"),
        };
        return Finding::new(CHECK, State::Ok, found);
    }
    let found = "some are of no effect, or of another than was meant";
    Finding::new(CHECK, State::Warning, found)
        .details(wrong)
        .fix("percale info --env lists the variables with the values in force")
}
