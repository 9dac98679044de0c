;; A command that waits COUNT times for one moment, all at once, and ends well if it is told of each.
(component $many
  (import "wasi:io/poll@0.2.0" (instance $poll
    (export "pollable" (type $pollable (sub resource)))
    (export "poll" (func (param "in" (list (borrow $pollable))) (result (list u32))))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer $many $pollable (type $pollable))
    (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))

  (core module $libc
    (memory (export "memory") 2)
    ;; The answer's list is all that is ever put there.
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 65536)))
  (core instance $libc (instantiate $libc))
  (core func $after (canon lower (func $clock "subscribe-duration")))
  (core func $wait (canon lower (func $poll "poll") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))

  (core module $main
    (import "libc" "memory" (memory 2))
    (import "host" "after" (func $after (param i64) (result i32)))
    (import "host" "wait" (func $wait (param i32 i32 i32)))
    (func (export "run") (result i32) (local $handle i32) (local $n i32)
      (local.set $handle (call $after (i64.const 0)))
      (loop $more
        (i32.store (i32.add (i32.const 4096) (i32.shl (local.get $n) (i32.const 2))) (local.get $handle))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $n) (i32.const COUNT))))
      (call $wait (i32.const 4096) (i32.const COUNT) (i32.const 16))
      (i32.ne (i32.load (i32.const 20)) (i32.const COUNT))))
  (core instance $main (instantiate $main
    (with "libc" (instance $libc))
    (with "host" (instance
      (export "after" (func $after))
      (export "wait" (func $wait))
    ))))
  (func $run (result (result)) (canon lift (core func $main "run")))
  (instance $command (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $command)))
