//! The variables: names that nearly are ones, values that are not taken, providers that do not exist.

use percale::param::{Suspect, Where, faults, suspects};

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
    let (misspelt, others): (Vec<Suspect>, Vec<Suspect>) =
        suspects().into_iter().partition(|suspect| suspect.meant.is_some());
    wrong.extend(misspelt.iter().map(ToString::to_string));
    wrong.extend(faults().iter().map(|fault| format!("{}: {fault}", Where::File)));
    let others: Vec<String> = others.iter().map(ToString::to_string).collect();
    if wrong.is_empty() && !others.is_empty() {
        let found = "some are for other programs or providers, or misspelt beyond recognition";
        return Finding::new(CHECK, State::Note, found).details(others);
    }
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
        .details([wrong, others].concat())
        .fix("percale info --env lists the variables with the values in force")
}
