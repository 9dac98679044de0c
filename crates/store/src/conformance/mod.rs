//! The suite that every driver passes.
//!
//! Each case is an async function over a contract, and panics with what is wrong. [`conformance_suite!`](crate::conformance_suite)
//! makes a `#[tokio::test]` of each, on a fresh and empty store:
//!
//! ```ignore
//! flint_store::conformance_suite!(MyDriver::empty());
//! ```
#![allow(clippy::unwrap_used, reason = "a case fails by panicking")]

pub mod activation_log;
pub mod apis;
pub mod blobs;
pub mod catalog;
pub mod compositions;
pub mod crash;
pub mod dead_letters;
pub mod durability;
pub mod entities;
pub mod feeds;
pub mod key_value;
pub mod namespaces;
pub mod queue;
pub mod retries;
pub mod sample;
pub mod secrets;
pub mod versions;

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;

use crate::{
    ActivationLog, Apis, Blobs, Catalog, Compositions, DeadLetters, Feeds, KeyValue, Queue, Secrets, Versions,
};

/// Opens one and the same store, again and again.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Opens it. The one opened before is closed, or its process is dead.
    async fn open(&self) -> Opened;
}

/// An open store.
pub struct Opened {
    /// Entities.
    pub catalog: Arc<dyn Catalog>,
    /// Earlier versions of functions.
    pub versions: Arc<dyn Versions>,
    /// Activation records.
    pub activations: Arc<dyn ActivationLog>,
    /// Accepted calls.
    pub queue: Arc<dyn Queue>,
    /// Calls that failed for good.
    pub dead_letters: Arc<dyn DeadLetters>,
    /// The journal of compositions.
    pub compositions: Arc<dyn Compositions>,
    /// Code.
    pub blobs: Arc<dyn Blobs>,
    /// Data of functions.
    pub values: Arc<dyn KeyValue>,
    /// APIs of the gateway.
    pub apis: Arc<dyn Apis>,
    /// What fires triggers.
    pub feeds: Arc<dyn Feeds>,
    /// Encrypted secrets.
    pub secrets: Arc<dyn Secrets>,
    /// Closes it in good order.
    pub close: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// A driver whose store has, from the beginning, the namespaces that the cases take for granted.
pub struct Inhabited<D> {
    driver: D,
    inhabited: AtomicBool,
}

impl<D: Driver> Inhabited<D> {
    /// Over an empty store.
    pub fn new(driver: D) -> Self {
        Self { driver, inhabited: AtomicBool::new(false) }
    }
}

#[async_trait]
impl<D: Driver> Driver for Inhabited<D> {
    async fn open(&self) -> Opened {
        let opened = self.driver.open().await;
        if !self.inhabited.swap(true, Ordering::Relaxed) {
            sample::inhabit(&*opened.catalog).await;
        }
        opened
    }
}

/// Makes a test of every case. The expression makes a [`Driver`] over an empty store.
#[macro_export]
macro_rules! conformance_suite {
    ($driver:expr) => {
        $crate::conformance_suite!(@ $driver, catalog, catalog:
            a_write_needs_what_it_expects, of_concurrent_writers_one_wins, a_revision_never_comes_back,
            a_deletion_needs_the_revision, functions_are_listed_latest_first, a_package_is_listed_alone,
            every_function_in_order_of_path, values_survive, namespaces_are_replaced_and_ordered,
            a_key_needs_its_namespace, a_namespace_takes_its_own_with_it, functions_are_known_by_their_revisions);
        $crate::conformance_suite!(@ $driver, entities, catalog:
            every_sort_comes_back, what_is_deep_comes_back, what_is_too_deep_is_refused_or_comes_back, a_name_belongs_to_one_collection, a_write_needs_what_it_expects,
            a_revision_never_comes_back, a_function_may_become_a_sequence, collections_are_listed_apart,
            a_full_package_stays, a_package_takes_its_contents_with_it, rules_are_found_by_their_trigger,
            a_namespace_takes_everything_with_it, lists_leave_out_parameters_alone, a_page_is_bounded_in_bytes,
            shared_packages_are_listed_apart);
        $crate::conformance_suite!(@ $driver, queue, queue:
            an_accepted_call_is_leased_to_its_owner, a_call_is_accepted_once, many_are_accepted_at_once, several_are_accepted_or_none,
            a_lease_is_exclusive, an_expired_lease_is_given_again, a_lease_is_no_attempt,
            only_the_holder_begins_and_only_once, an_extended_lease_stays, what_is_held_stays_held,
            a_failed_call_waits_for_its_delay, an_exhausted_call_is_handed_out_once,
            a_failed_last_attempt_exhausts, a_restart_releases_the_others, the_oldest_goes_first,
            a_completed_call_is_forgotten, a_lease_that_is_over_does_nothing, values_survive);
        $crate::conformance_suite!(@ $driver, retries, queue:
            namespaces_take_turns, failed_calls_stand_apart, who_has_no_place_takes_no_turn, the_next_delay_is_known,
            what_waits_for_its_first_attempt_is_counted, what_waits_again_is_counted,
            a_call_is_given_back, it_is_known_why_a_call_is_put_off, a_call_may_be_begun_when_it_is_accepted, a_call_is_found_where_it_is, policies_survive);
        $crate::conformance_suite!(@ $driver, activation_log, activations:
            a_record_is_seen_at_once, a_list_is_in_order_and_paged, filters_agree_with_a_plain_list,
            a_name_is_that_of_the_call, logs_come_on_request, a_page_is_bounded, values_survive, the_first_of_two_is_kept,
            namespaces_are_apart, what_was_done_is_counted, reads_and_appends_go_together);
        $crate::conformance_suite!(@ $driver, blobs, blobs:
            content_comes_back_by_its_hash, the_same_content_is_stored_once, what_is_kept_or_young_stays,
            a_large_one_comes_back);
        $crate::conformance_suite!(@ $driver, key_value, values:
            values_come_back_by_key, buckets_and_namespaces_are_apart, a_later_namespace_of_the_name_is_another, keys_are_listed_in_order_and_paged,
            a_quota_holds_and_is_counted_exactly, counters_count_every_increment);
        mod dead_letters {
            use super::*;
            $crate::conformance_suite!(@driver $driver, dead_letters:
                a_letter_has_everything, what_is_over_becomes_no_letter, letters_are_listed,
                letters_of_a_moment_are_in_order_of_id, a_letter_is_redriven_once,
                bounds_hold, old_letters_go, a_composition_begins_anew, letters_stay_until_their_namespace_goes);
        }
        mod namespaces {
            use super::*;
            $crate::conformance_suite!(@driver $driver, namespaces:
                nothing_is_written_for_one_that_is_not_there, one_that_is_created_again_has_nothing_of_its_predecessor);
        }
        mod compositions {
            use super::*;
            $crate::conformance_suite!(@driver $driver, compositions:
                the_last_step_counts, attempts_at_a_step_are_counted, an_attempt_without_an_end_counts, a_composition_at_a_step_runs, a_journal_goes_with_its_call,
                a_step_that_is_over_writes_nothing, a_lease_that_is_over_writes_nothing, a_composition_is_where_it_was);
        }
        mod apis {
            use super::*;
            $crate::conformance_suite!(@driver $driver, apis:
                what_was_written_comes_back, a_write_needs_what_it_expects);
        }
        mod feeds {
            use super::*;
            $crate::conformance_suite!(@driver $driver, feeds:
                what_was_written_comes_back, a_write_needs_what_it_expects, what_is_due_comes_in_order,
                a_portion_is_bounded_in_bytes, a_firing_is_one_commit, it_goes_with_its_trigger);
        }
        mod versions {
            use super::*;
            $crate::conformance_suite!(@driver $driver, versions:
                what_is_replaced_is_kept, a_refused_write_leaves_no_trace, the_oldest_go_first, a_number_is_one_version,
                aliases_come_back, an_alias_names_what_is_there, live_follows_in_the_same_commit,
                they_go_with_their_function, upkeep_sees_nothing_large, each_has_its_parameters);
        }
        mod secrets {
            use super::*;
            $crate::conformance_suite!(@driver $driver, secrets:
                what_was_written_comes_back, they_are_bounded_and_go_with_their_namespace,
                a_value_is_sealed_anew_only_where_it_still_is);
        }
        mod durability {
            use super::*;
            $crate::conformance_suite!(@driver $driver, durability:
                everything_is_there_after_reopening, attempts_are_counted_over_restarts,
                restarts_before_it_begins_do_not_count, values_stay_until_their_namespace_goes);
        }
    };
    (@ $driver:expr, $module:ident, $part:ident: $($case:ident),* $(,)?) => {
        mod $module {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let driver = $crate::conformance::Inhabited::new($driver);
                    let opened = $crate::conformance::Driver::open(&driver).await;
                    $crate::conformance::$module::$case(&*opened.$part).await;
                    opened.close.await;
                }
            )*
        }
    };
    (@driver $driver:expr, $module:ident: $($case:ident),* $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let driver = $crate::conformance::Inhabited::new($driver);
                $crate::conformance::$module::$case(&driver).await;
            }
        )*
    };
}
