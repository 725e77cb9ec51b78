//! The programs of `hosts.rs` and `tcp_hosts.rs` over `tcp;ofi_rxm`: what the protocol of its own adds
//! to what connections are proved to do there.
//!
//! A peer that cannot be reached is given up after one second here.

use percale_tests::rig::{Program, long};

/// Direct copies are no matter of networks.
const NO_DENIAL: [&str; 2] = ["none", "1"];

fn program(name: &str) -> Program {
    Program::new(name).with("PERCALE_PROVIDER", "tcp;ofi_rxm").with("FI_TCP_CONNECT_TIMEOUT", "1")
}

#[test]
fn fifty_kills_leave_nothing() {
    program("deaths").run(&["cycles"]);
}

#[test]
fn operations_of_every_kind_end_with_their_peer() {
    program("deaths").run(&["pending"]);
}

#[test]
fn a_peer_may_die_at_any_moment() {
    program("deaths").run(&["any-moment", if long() { "500" } else { "50" }]);
}

#[test]
fn a_sleeper_learns_of_its_peers_end() {
    program("deaths").run(&["asleep"]);
}

#[test]
fn a_quiet_peer_is_not_a_dead_one() {
    program("deaths").with("FI_TCP_PEER_TIMEOUT", "1").run(&["quiet"]);
}

#[test]
fn a_restarted_peer_is_not_taken_for_its_dead_predecessor() {
    program("successors").run(&["restarted"]);
}

#[test]
fn a_server_that_is_not_there_yet() {
    program("restarts").run(&["early"]);
}

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

#[test]
fn visitors_that_are_no_peers() {
    program("strangers").run(&["scanners", "300"]);
}

#[test]
fn three_hundred_visitors_say_half_a_word() {
    program("strangers").run(&["half-open"]);
}

/// Who says that a live peer has been started anew.
#[test]
fn a_live_peer_in_whose_name_another_comes() {
    program("strangers").with("FI_TCP_CONNECT_TIMEOUT", "5").run(&["forged"]);
}

/// What a connection takes, what many idle ones cost, and their end.
#[test]
fn many_peers_of_one_endpoint() {
    let peers = if long() { "2000" } else { "500" };
    program("throng").with("FI_TCP_CONNECT_TIMEOUT", "60").run(&[peers]);
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
fn a_small_queue_loses_nothing() {
    program("queues").run(&["small"]);
}

/// Moves 16 GiB.
#[test]
fn sends_of_three_sizes_before_any_receive() {
    if long() {
        program("queues").run(&["sizes"]);
    }
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
fn no_wake_up_is_lost() {
    program("wakes").run(&["kinds", if long() { "20000" } else { "2000" }]);
}

#[test]
fn address_vectors_agree_with_a_model() {
    program("vector").run(&[if long() { "200000" } else { "10000" }]);
}

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

#[test]
fn what_is_posted_leaves() {
    program("guest").run(&["posted"]);
}

#[test]
fn transfers_of_every_kind_and_size() {
    program("transfers").run(&NO_DENIAL);
}

#[test]
fn atomics_that_find_no_room() {
    program("edges").run(&["full-rings"]);
}

#[test]
fn addresses_where_nothing_is() {
    program("edges").run(&["address-space"]);
}

#[test]
fn a_region_closed_under_a_read() {
    program("edges").run(&["closed-region"]);
}

#[test]
fn injected_messages_outlive_their_endpoint() {
    program("edges").run(&["injected"]);
}

#[test]
fn a_message_beyond_four_gib() {
    program("huge").run(&[NO_DENIAL[0], NO_DENIAL[1], "send", "4294967297"]);
}
