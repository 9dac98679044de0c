//! The suite that every executor passes: one file for each rule (`executor rule` in SPECIFICATION.md).
//!
//! A crate that implements [`crate::Executor`] writes
//!
//! ```ignore
//! async fn node() -> (Subject, impl Sized) { … }
//! flint_executor::conformance_suite!(node);
//! ```
//!
//! and gets one test for each rule. [`leaks`] measures the whole process, so it is called from a test program
//! of its own. Nothing here asserts timing; [`PATIENCE`] only ends a test that hangs.

pub mod bodies;
pub mod containment;
pub mod deadline;
pub mod errors;
pub mod faults;
pub mod isolation;
pub mod leaks;
pub mod lifecycle;
pub mod logs;
mod marked;
mod programs;
mod subject;
pub mod uniqueness;

pub use marked::marked;
pub use programs::Language;
pub use subject::{PATIENCE, Subject};

/// Makes a test of every rule for the subject that an async function returns, together with whatever must
/// live as long as the subject.
#[macro_export]
macro_rules! conformance_suite {
    ($subject:path) => {
        $crate::conformance_suite!(@ $subject,
            isolation: fresh_instances_share_nothing, a_warm_instance_keeps_its_own_state;
            uniqueness: no_two_instances_draw_the_same;
            deadline: an_endless_loop_is_ended, a_fork_bomb_is_contained, a_memory_bomb_is_contained,
                loading_has_a_deadline_too;
            logs: output_is_complete_and_in_order, output_belongs_to_its_call, a_gigabyte_of_output_does_no_harm,
                closed_output_is_tolerated, what_exceeds_the_limit_is_said;
            faults: an_exit_is_said, a_crash_is_said, an_exception_is_said, half_a_character_in_an_exception_does_no_harm,
                code_that_does_not_load_is_said, an_oversized_result_is_said, a_wrong_answer_is_said;
            containment: the_host_is_out_of_sight, the_code_is_read_only, the_hosts_loopback_is_out_of_reach;
            bodies: long_bodies_stream_both_ways, a_caller_that_goes_away_does_no_harm,
                a_request_that_breaks_off_ends_its_own_call_only, binary_answers_are_http;
            lifecycle: a_paused_instance_serves_again, an_instance_serves_one_call_at_a_time, an_ended_instance_says_so,
                preparing_twice_is_a_no_op, prewarmed_runtimes_are_taken;
            errors: a_refused_kind_names_the_cause, refused_code_names_the_cause;
        );
    };
    (@ $subject:path, $($rule:ident: $($test:ident),*;)*) => {
        $($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                let (subject, _keep) = $subject().await;
                let rule = $crate::conformance::$rule::$test(&subject);
                tokio::time::timeout($crate::conformance::PATIENCE, rule).await.expect("the test hangs");
                subject.executor.shutdown().await;
            }
        )*)*
    };
}
