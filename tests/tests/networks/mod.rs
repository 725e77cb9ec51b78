//! The programs of `hosts.rs` as they run over every provider that works over connections, which is
//! the `program` of whoever has these as a module.

use percale_tests::rig::long;

use super::{NO_DENIAL, program};

#[test]
fn fifty_kills_leave_nothing() {
    program("deaths").run(&["cycles"]);
}

#[test]
fn operations_of_every_kind_end_with_their_peer() {
    program("deaths").run(&["pending"]);
}

#[test]
fn a_sleeper_learns_of_its_peers_end() {
    program("deaths").run(&["asleep"]);
}

/// Who computes, or is stopped, for three times the bound with full sockets is not dead.
#[test]
fn a_quiet_peer_is_not_a_dead_one() {
    program("deaths").with("FI_TCP_PEER_TIMEOUT", "1").run(&["quiet"]);
}

#[test]
fn a_restarted_peer_is_not_taken_for_its_dead_predecessor() {
    program("successors").run(&["restarted"]);
}

/// Messages to somebody who comes later, or never.
#[test]
fn a_server_that_is_not_there_yet() {
    program("restarts").run(&["early"]);
}

/// Thousands of attempts.
#[test]
fn nobody_is_at_many_addresses() {
    program("restarts").run(&["never"]);
}

#[test]
fn a_server_is_started_anew_twenty_times() {
    program("restarts").run(&["again", "20"]);
}

#[test]
fn two_reach_for_each_other_at_once() {
    program("restarts").run(&["crossing", if long() { "2000" } else { "200" }]);
}

/// What answers nothing, closes at once, speaks for another provider, or is nowhere at all.
#[test]
fn what_is_no_peer_is_told_apart() {
    for case in ["silent", "closing", "port-zero", "other", "descriptors", "set-up"] {
        program("misfits").run(&[case]);
    }
}

/// 40 descriptors, 200 clients one by one and 60 at once.
#[test]
fn a_server_without_descriptors_turns_clients_away() {
    program("exhausted").run(&["clients"]);
}

#[test]
fn a_client_without_descriptors_is_told() {
    program("exhausted").run(&["connects"]);
}

#[test]
fn a_child_that_closes_what_it_has_inherited() {
    program("forked").run(&["closes"]);
}

/// By closing or by `exec`, at which children that have been forked keep nothing of its connections.
#[test]
fn a_child_does_not_hide_that_its_parent_has_left() {
    let program = program("forked");
    for way in ["close", "exec", "exit"] {
        program.run(&["left", way]);
    }
    program.run(&["unseen", "close"]);
}

#[test]
fn children_of_a_process_whose_threads_are_in_the_library() {
    program("forked").run(&["threads", "manual"]);
}

#[test]
fn three_hundred_visitors_say_half_a_word() {
    program("strangers").run(&["half-open"]);
}

#[test]
fn headers_with_impossible_numbers() {
    program("strangers").run(&["headers"]);
}

/// It could be a peer that computes, so nothing ends; but the log has its address.
#[test]
fn a_stranger_that_says_nothing() {
    program("strangers").run(&["silent"]);
}

/// Who says that a live peer has been started anew.
#[test]
fn a_live_peer_in_whose_name_another_comes() {
    program("strangers").with("FI_TCP_CONNECT_TIMEOUT", "5").run(&["forged"]);
}

#[test]
fn enabling_without_descriptors_is_tried_again() {
    program("shortage").run(&["enabling"]);
}

#[test]
fn thousands_of_addresses_are_forgotten() {
    program("shortage").run(&["names"]);
}

#[test]
fn six_hundred_endpoints() {
    program("floods").run(&["endpoints"]);
}

#[test]
fn cancelled_receives_complete_once() {
    program("floods").run(&["cancelled"]);
}

#[test]
fn both_flood_before_either_receives() {
    program("floods").run(&["both-ways"]);
}

#[test]
fn messages_that_nobody_waits_for() {
    program("floods").run(&["unexpected"]);
}

#[test]
fn a_cut_message_is_not_the_last() {
    program("floods").run(&["truncated"]);
}

#[test]
fn sleepers_beside_posters_and_pollers() {
    let program = program("sleepers");
    for progress in ["rounds", "automatic"] {
        program.run(&[progress, if long() { "30" } else { "2" }]);
    }
}

#[test]
fn each_signal_ends_one_read() {
    program("sleepers").run(&["signals", if long() { "20" } else { "1" }]);
}

#[test]
fn who_waits_for_room_is_left_alone() {
    program("sleepers").run(&["no-room"]);
}

#[test]
fn signals_and_cancellation_meet_sleepers() {
    program("sleepers").run(&["interrupted"]);
}

#[test]
fn sleeps_end_in_time() {
    program("sleepers").run(&["timeouts"]);
}

#[test]
fn a_small_queue_loses_nothing() {
    program("queues").run(&["small"]);
}

#[test]
fn sixteen_senders_of_unexpected_messages() {
    program("queues").run(&["senders"]);
}

/// Who has read a completion may call nothing any more: what has completed is under way.
#[test]
fn what_has_completed_arrives() {
    program("queues").run(&["leaves"]);
}

#[test]
fn an_error_names_its_peer() {
    program("queues").run(&["third"]);
}

#[test]
fn address_vectors_agree_with_a_model() {
    program("vector").run(&[if long() { "200000" } else { "10000" }]);
}

/// Hints that are wrong in one way: the report names that attribute first.
#[test]
fn reasons_name_the_wrong_attribute() {
    program("wrong").run(&[]);
}

#[test]
fn endpoints_close_beside_a_reader() {
    program("lifetimes").run(&["churn", if long() { "2000" } else { "200" }]);
}

#[test]
fn threads_share_an_endpoint() {
    program("lifetimes").run(&["threads", if long() { "20" } else { "2" }]);
}

/// The target makes no call, serves everything and sleeps.
#[test]
fn automatic_progress() {
    program("guest").run(&["automatic"]);
}

/// The sender makes no call once it has posted.
#[test]
fn what_is_posted_leaves() {
    program("guest").run(&["posted"]);
}

#[test]
fn transfers_of_every_kind_and_size() {
    program("transfers").run(&NO_DENIAL);
}

/// Sockets are full of other things.
#[test]
fn atomics_that_find_no_room() {
    program("edges").run(&["full-rings"]);
}

/// Whoever opens its whole address space is asked for what is not there.
#[test]
fn addresses_where_nothing_is() {
    program("edges").run(&["address-space"]);
}

/// An answer that has begun to leave ends with its region, and the reader is told.
#[test]
fn a_region_closed_under_a_read() {
    program("edges").run(&["closed-region"]);
}

#[test]
fn injected_messages_outlive_their_endpoint() {
    program("edges").run(&["injected"]);
}
