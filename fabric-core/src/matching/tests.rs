//! Matching against lists that are searched from the front, as the rules read.

use proptest::prelude::*;

use super::*;

/// One call. Numbers of receives are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Post(Want),
    Arrive(Key),
    Cancel(usize),
    CancelPeer(PeerId),
    Peek(Want),
    Take(Want),
    Claim(Want, usize),
    TakeClaimed(usize),
    RemovePosted(usize),
    RemoveStale(usize),
    DropPeer(PeerId),
}

fn want() -> impl Strategy<Value = Want> {
    let peer = prop_oneof![Just(ANY_PEER), 0u32..3];
    let ignore = prop::sample::select(vec![0, 0, 1, 2, u64::MAX]);
    (any::<bool>(), peer, 0u64..4, ignore).prop_map(|(tagged, peer, tag, ignore)| {
        let (tag, ignore) = if tagged { (tag, ignore) } else { (0, 0) };
        Want { tagged, peer, tag, ignore }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let key = (any::<bool>(), 0u32..3, 0u64..4).prop_map(|(tagged, peer, tag)| Key {
        tagged,
        peer,
        tag: if tagged { tag } else { 0 },
    });
    prop_oneof![
        6 => want().prop_map(Step::Post),
        6 => key.prop_map(Step::Arrive),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => (0u32..3).prop_map(Step::CancelPeer),
        1 => want().prop_map(Step::Peek),
        1 => want().prop_map(Step::Take),
        1 => (want(), 0usize..3).prop_map(|(want, context)| Step::Claim(want, context)),
        1 => (0usize..3).prop_map(Step::TakeClaimed),
        1 => any::<usize>().prop_map(Step::RemovePosted),
        1 => any::<usize>().prop_map(Step::RemoveStale),
        1 => (0u32..3).prop_map(Step::DropPeer),
    ]
}

/// Lists in order; receives and messages are numbered.
#[derive(Default)]
struct Model {
    posted: Vec<(Want, usize)>,
    waiting: Vec<(Key, usize)>,
    claimed: Vec<(usize, Key, usize)>,
}

fn matches(want: &Want, key: &Key) -> bool {
    want.tagged == key.tagged
        && want.tag & !want.ignore == key.tag & !want.ignore
        && [ANY_PEER, key.peer].contains(&want.peer)
}

impl Model {
    fn first_waiting(&self, want: &Want) -> Option<usize> {
        self.waiting.iter().position(|(key, _)| matches(want, key))
    }

    fn take(&mut self, want: &Want) -> Option<(Key, usize)> {
        self.first_waiting(want).map(|at| self.waiting.remove(at))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn agrees_with_lists(steps in prop::collection::vec(step(), 1..150)) {
        let mut matcher = Matcher::<usize, usize>::default();
        let mut model = Model::default();
        let mut ids: Vec<PostedId> = Vec::new();
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Post(want) => {
                    let found = matcher.take_waiting(&want);
                    prop_assert_eq!(&found, &model.take(&want));
                    if found.is_none() {
                        let id = matcher.post(want, ids.len());
                        model.posted.push((want, ids.len()));
                        ids.push(id);
                    }
                }
                Step::Arrive(key) => {
                    let expected = model.posted.iter().position(|(want, _)| matches(want, &key));
                    let found = matcher.find_posted(&key);
                    prop_assert_eq!(found.is_some(), expected.is_some());
                    match (found, expected) {
                        (Some(id), Some(at)) => {
                            let (_, receive) = model.posted[at];
                            prop_assert_eq!(id, ids[receive]);
                            prop_assert_eq!(matcher.posted_mut(id).copied(), Some(receive));
                            // Every third one stays posted, as multi-receive buffers do.
                            if n % 3 != 0 {
                                prop_assert_eq!(matcher.remove_posted(id), Some(receive));
                                model.posted.remove(at);
                            }
                        }
                        _ => {
                            matcher.wait(key, n);
                            model.waiting.push((key, n));
                        }
                    }
                }
                Step::Cancel(which) if !ids.is_empty() => {
                    let which = which % ids.len();
                    let at = model.posted.iter().position(|(_, receive)| *receive == which);
                    let found = matcher.remove_posted_if(|_, receive| *receive == which);
                    prop_assert_eq!(found, at.map(|at| model.posted.remove(at)));
                }
                Step::CancelPeer(peer) => {
                    let mut gone = Vec::new();
                    for found in matcher.remove_posted_of(peer) {
                        gone.push(found);
                    }
                    gone.sort_by_key(|(_, receive)| *receive);
                    let expected: Vec<_> =
                        model.posted.extract_if(.., |(want, _)| want.peer == peer).collect();
                    prop_assert_eq!(gone, expected);
                }
                Step::Peek(want) => {
                    let found = matcher.peek_waiting(&want).map(|(key, message)| (*key, *message));
                    prop_assert_eq!(found, model.first_waiting(&want).map(|at| model.waiting[at]));
                }
                Step::Take(want) => {
                    prop_assert_eq!(matcher.take_waiting(&want), model.take(&want));
                }
                Step::Claim(want, context) => {
                    let found = matcher.claim(&want, context).map(|(key, message)| (*key, *message));
                    let expected = model.take(&want);
                    prop_assert_eq!(found, expected);
                    if let Some((key, message)) = expected {
                        model.claimed.push((context, key, message));
                    }
                }
                Step::TakeClaimed(context) => {
                    let at = model.claimed.iter().position(|(owner, ..)| *owner == context);
                    let expected = at.map(|at| model.claimed.remove(at));
                    let expected = expected.map(|(_, key, message)| (key, message));
                    prop_assert_eq!(matcher.take_claimed(context), expected);
                }
                Step::RemovePosted(which) | Step::RemoveStale(which) if !ids.is_empty() => {
                    // Most of these have been used up, and their place taken by others.
                    let which = which % ids.len();
                    let at = model.posted.iter().position(|(_, receive)| *receive == which);
                    let expected = at.map(|at| model.posted.remove(at).1);
                    prop_assert_eq!(matcher.posted_mut(ids[which]).copied(), expected);
                    prop_assert_eq!(matcher.remove_posted(ids[which]), expected);
                    prop_assert_eq!(matcher.remove_posted(ids[which]), None);
                }
                Step::DropPeer(peer) => {
                    // Whole messages of the peer stay, as when a sender has ended.
                    let keep = |key: &Key, message: usize| key.peer != peer || message.is_multiple_of(2);
                    matcher.retain_waiting(|key, message| keep(key, *message));
                    model.waiting.retain(|(key, message)| keep(key, *message));
                    model.claimed.retain(|(_, key, message)| keep(key, *message));
                }
                Step::Cancel(_) | Step::RemovePosted(_) | Step::RemoveStale(_) => {}
            }
            prop_assert_eq!(matcher.posted_len(), model.posted.len());
            prop_assert_eq!(matcher.waiting_len(), model.waiting.len() + model.claimed.len());
        }
        for (want, receive) in model.posted {
            let found = matcher.remove_posted_if(|w, _| w.tagged == want.tagged);
            prop_assert_eq!(found, Some((want, receive)));
        }
    }
}
