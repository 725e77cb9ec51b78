//! Two processes and more on hosts that make it hard: direct copies denied, PID namespaces side by
//! side, no room in `/dev/shm`; with peers that die at any moment, flood each other or mean harm;
//! and many of everything.
//!
//! The programs are in `c/hosts`. What every run of them is held to is in `percale_tests::rig`.
//! `PERCALE_LONG=1` takes more time for the cases that draw at random or move much.

use std::{fs, time::Duration};

use percale_tests::rig::{Program, is_shm, long, scratch};

/// Error numbers as arguments of the programs.
const EPERM: &str = "1";
const ENOSYS: &str = "38";

/// Direct copies fail as in sandboxes, on either side and on both.
#[test]
fn transfers_without_direct_copies() {
    let program = Program::new("transfers");
    for who in ["none", "A", "B", "both"] {
        for reason in [EPERM, ENOSYS] {
            program.run(&[who, reason]);
        }
    }
}

/// Two processes with equal ids: eight endpoints, every pair, nothing to the wrong one.
#[test]
fn equal_process_ids_in_sibling_namespaces() {
    let program = Program::new("all_pairs");
    let meeting = scratch("hosts-meeting");
    let _ = fs::remove_file(&meeting);
    program.run_as_siblings(&[meeting.to_str().expect("a path of letters")]);
    let _ = fs::remove_file(&meeting);
}

/// Every run has a `/dev/shm` of 1 MiB; this one moves 16 MiB at a time through rings alone.
#[test]
fn next_to_no_room_in_dev_shm() {
    Program::new("transfers").run(&["both", EPERM]);
}

#[test]
fn fifty_kills_leave_nothing() {
    Program::new("deaths").run(&["cycles"]);
}

#[test]
fn operations_of_every_kind_end_with_their_peer() {
    Program::new("deaths").run(&["pending"]);
}

#[test]
fn a_peer_may_die_at_any_moment() {
    Program::new("deaths").run(&["any-moment", if long() { "500" } else { "100" }]);
}

#[test]
fn a_successor_at_the_same_address_is_served() {
    Program::new("successors").run(&["replaced"]);
}

#[test]
fn a_restarted_peer_is_not_taken_for_its_dead_predecessor() {
    Program::new("successors").run(&["restarted"]);
}

#[test]
fn a_sleeping_child_does_not_keep_its_dead_parents_name() {
    Program::new("successors").run(&["orphaned"]);
}

#[test]
fn a_child_does_not_hide_that_its_parent_has_left() {
    let program = Program::new("forked");
    for way in ["close", "exec", "exit"] {
        program.run(&["left", way]);
    }
    // Children that no handler sees; of one that lives on behind an `exec` nothing is told.
    for way in ["close", "exit"] {
        program.run(&["unseen", way]);
    }
}

/// Where the peer's process could not be watched at first, for want of a descriptor.
#[test]
fn a_starved_process_learns_of_its_peers_end() {
    for how in ["starved", "asleep"] {
        Program::new("forked").run(&[how, "exit"]);
    }
}

#[test]
fn a_child_that_closes_what_it_has_inherited() {
    Program::new("forked").run(&["closes"]);
}

#[test]
fn children_of_a_process_whose_threads_are_in_the_library() {
    let program = Program::new("forked");
    for progress in ["manual", "auto"] {
        program.run(&["threads", progress]);
    }
}

#[test]
fn a_sleeper_learns_of_its_peers_end() {
    Program::new("deaths").run(&["asleep"]);
}

/// Who computes, or is stopped, for three times the bound on reporting an end is not dead.
#[test]
fn a_quiet_peer_is_not_a_dead_one() {
    Program::new("deaths").run(&["quiet"]);
}

#[test]
fn six_hundred_endpoints() {
    Program::new("floods").run(&["endpoints"]);
}

#[test]
fn cancelled_receives_complete_once() {
    Program::new("floods").run(&["cancelled"]);
}

#[test]
fn both_flood_before_either_receives() {
    Program::new("floods").run(&["both-ways"]);
}

#[test]
fn messages_that_nobody_waits_for() {
    Program::new("floods").run(&["unexpected"]);
}

#[test]
fn a_cut_message_is_not_the_last() {
    Program::new("floods").run(&["truncated"]);
}

/// A queue of 4 entries takes a thousand completions beside ten thousand posted receives.
#[test]
fn a_small_queue_loses_nothing() {
    Program::new("queues").run(&["small"]);
}

/// A thousand sends of 8 B, of 60 KiB and of 8 MiB, before any receive is posted, both ways.
#[test]
fn sends_of_three_sizes_before_any_receive() {
    Program::new("queues").run(&["sizes"]);
}

/// Sixteen processes send what is received late and in reverse order, direct copies denied.
#[test]
fn sixteen_senders_of_unexpected_messages() {
    Program::new("queues").run(&["senders"]);
}

/// Who has read a completion may call nothing any more: what has completed is under way.
#[test]
fn what_has_completed_arrives() {
    Program::new("queues").run(&["leaves"]);
}

#[test]
fn an_error_names_its_peer() {
    Program::new("queues").run(&["third"]);
}

/// Every process to every other; what the rings of 192 would take is computed from what these do.
#[test]
fn sixty_four_processes_all_pairs() {
    Program::new("crowd").run(&["64", "4000"]);
}

/// The same with so many, for long runs.
#[test]
fn processes_of_a_whole_node() {
    if long() {
        Program::new("crowd").run(&["192", "4000"]);
    }
}

/// Sleeping after `fi_trywait` for sends, tagged sends, reads, writes and counters.
#[test]
fn no_wake_up_is_lost() {
    Program::new("wakes").run(&["kinds", if long() { "20000" } else { "5000" }]);
}

#[test]
fn two_sleepers_share_one_core() {
    Program::new("wakes").run(&["one-core", "10000"]);
}

/// A neighbour drains its bell, floods ours, or never listens, while we sleep for another.
#[test]
fn no_peer_rings_for_another() {
    if is_shm() {
        Program::new("neighbours").run(&["bells", if long() { "5" } else { "1" }]);
    }
}

/// A process of another user is told no at once. Needs root.
#[test]
fn another_user_is_refused() {
    if is_shm() {
        Program::new("neighbours").run(&["other-user", "0"]);
    }
}

/// A name that another user has taken. Needs root.
#[test]
fn a_name_that_another_user_has_taken() {
    if is_shm() {
        Program::new("neighbours").run(&["squat", "0"]);
    }
}

/// Insertions, duplicates and removals against a model, names followed by dirt.
#[test]
fn address_vectors_agree_with_a_model() {
    Program::new("vector").run(&[if long() { "200000" } else { "20000" }]);
}

/// Hints that are wrong in one way: the report names that attribute first.
#[test]
fn reasons_name_the_wrong_attribute() {
    Program::new("wrong").run(&[]);
}

/// Closing in every order: done, or refused as busy and done later.
#[test]
fn closing_in_any_order() {
    Program::new("lifetimes").run(&["orders"]);
}

/// Endpoints come and go while another thread reads their queue.
#[test]
fn endpoints_close_beside_a_reader() {
    Program::new("lifetimes").run(&["churn", if long() { "2000" } else { "200" }]);
}

/// Operations to nobody fail, quickly, and leave nothing.
#[test]
fn nobody_is_there() {
    Program::new("lifetimes").run(&["nobody"]);
}

/// Who cannot be reached, and what is no address, is told once with the reason.
#[test]
fn the_log_says_why_a_peer_is_not_reached() {
    let program = Program::new("unreached");
    for case in ["nobody", "other-user", "descriptors", "names"] {
        program.run(&[case]);
    }
}

/// Reasons for which nothing fits are told at the end of a program that has found nothing.
#[test]
fn who_merely_probes_has_nothing_in_the_log() {
    Program::new("unreached").run(&["probing"]);
}

/// Two endpoints of a domain, with queues and counters of their own and one in common, slept on in
/// every way, with manual and with automatic progress.
#[test]
fn sleepers_beside_posters_and_pollers() {
    let program = Program::new("sleepers");
    for progress in ["rounds", "automatic"] {
        program.run(&[progress, if long() { "30" } else { "2" }]);
    }
}

#[test]
fn each_signal_ends_one_read() {
    Program::new("sleepers").run(&["signals", if long() { "20" } else { "1" }]);
}

#[test]
fn sleeps_end_in_time() {
    Program::new("sleepers").run(&["timeouts"]);
}

#[test]
fn who_waits_for_room_is_left_alone() {
    Program::new("sleepers").run(&["no-room"]);
}

#[test]
fn signals_and_cancellation_meet_sleepers() {
    Program::new("sleepers").run(&["interrupted"]);
}

#[test]
fn what_threads_wait_for_is_busy() {
    Program::new("sleepers").run(&["closing"]);
}

/// Four threads use one endpoint for everything at once.
#[test]
fn threads_share_an_endpoint() {
    Program::new("lifetimes").run(&["threads", if long() { "20" } else { "2" }]);
}

#[test]
fn a_full_backlog_completes_nothing() {
    Program::new("shortage").run(&["backlog"]);
}

#[test]
fn a_peer_without_descriptors_gets_everything() {
    Program::new("shortage").run(&["descriptors"]);
}

#[test]
fn thousands_of_names_are_forgotten() {
    Program::new("shortage").run(&["names"]);
}

#[test]
fn a_limit_of_file_sizes_ends_nobody() {
    Program::new("shortage").run(&["file-size"]);
}

#[test]
fn enabling_without_descriptors_is_tried_again() {
    Program::new("shortage").run(&["enabling"]);
}

/// Messages without a receive, and no memory to keep them, or to map their rings.
#[test]
fn a_flooded_process_without_memory_lives_on() {
    Program::new("shortage").run(&["memory"]);
}

/// No signal handler, no thread, no word on standard output.
#[test]
fn manners_of_a_guest() {
    Program::new("guest").run(&["manners"]);
}

/// The target makes no call, serves everything and sleeps.
#[test]
fn automatic_progress() {
    let usage = Program::new("guest").run(&["automatic"]);
    assert!(usage.wall < Duration::from_secs(20));
}

/// A thousand visits of those who say anything but what a peer says.
#[test]
fn visitors_that_mean_harm() {
    if is_shm() {
        Program::new("hostile").run(&["visits", "0"]);
    }
}

/// A peer that writes random words over all memory it shares.
#[test]
fn a_peer_that_scribbles() {
    if is_shm() {
        Program::new("hostile").run(&["scribbles", if long() { "10" } else { "4" }]);
    }
}

/// Rings are full of other things.
#[test]
fn atomics_that_find_no_room() {
    Program::new("edges").run(&["full-rings"]);
}

/// No segment can be larger than a page: everything works, in small pieces.
#[test]
fn one_page_for_everything() {
    Program::new("edges").run(&["small-rings"]);
}

/// Whoever opens its whole address space is asked for what is not there.
#[test]
fn addresses_where_nothing_is() {
    Program::new("edges").run(&["address-space"]);
}

/// Bytes of after the close are never taken for a good read.
#[test]
fn a_region_closed_under_a_read() {
    Program::new("edges").run(&["closed-region"]);
}

#[test]
fn a_receiver_that_breaks_its_ring() {
    Program::new("edges").run(&["broken-ring"]);
}

#[test]
fn injected_messages_outlive_their_endpoint() {
    Program::new("edges").run(&["injected"]);
}

/// 2^32 + 1 bytes: in segments, from a sender that sleeps, and with direct copies denied. Long runs
/// have all sizes around the limits of 31 and 32 bits, and one-sided access.
#[test]
fn a_message_beyond_four_gib() {
    let program = Program::new("huge");
    let beyond = "4294967297";
    program.run(&["none", EPERM, "send", beyond]);
    program.run(&["none", EPERM, "sleeper", beyond]);
    program.run(&["both", EPERM, "send", beyond]);
    if !long() {
        return;
    }
    for who in ["none", "both"] {
        for kind in ["send", "write", "read"] {
            for size in ["2147483647", "2147483648", "4294967295", "4294967296", beyond] {
                program.run(&[who, EPERM, kind, size]);
            }
        }
    }
}
