;; Contract wasm-core: the first byte of what stands in the value of "op" chooses what is done, counted from byte 7 of {"op":"…
(module
  (import "flint" "log" (func $log (param i32 i32 i32)))
  (import "flint" "fail" (func $fail (param i32 i32)))
  (memory (export "memory") 2 2048)
  (global $next (mut i32) (i32.const 8192))
  (global $calls (mut i32) (i32.const 0))
  (data (i32.const 1024) "first line")
  (data (i32.const 1040) "an error line\n")
  (data (i32.const 1072) "{\"calls\":0}")
  (data (i32.const 1100) "it went wrong")
  (data (i32.const 1120) "7")
  (data (i32.const 1130) "{\"big\":\"")

  (func $flint_alloc (export "flint_alloc") (param $len i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next (i32.add (global.get $next) (local.get $len)))
    (drop (memory.grow (i32.shr_u (local.get $len) (i32.const 16))))
    (local.get $at))

  (func $give (param $at i32) (param $len i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32)) (i64.extend_i32_u (local.get $len))))

  (func $deeper (param $n i32) (result i32)
    (i32.add (i32.const 1) (call $deeper (i32.add (local.get $n) (i32.const 1)))))

  (func $panicking_function
    (unreachable))

  (func $flint_call (export "flint_call") (param $at i32) (param $len i32) (result i64)
    (local $op i32)
    (local.set $op (i32.load8_u offset=7 (local.get $at)))
    ;; echo
    (if (i32.eq (local.get $op) (i32.const 0x65)) (then (return (call $give (local.get $at) (local.get $len)))))
    ;; log
    (if (i32.eq (local.get $op) (i32.const 0x6c)) (then
      (call $log (i32.const 1) (i32.const 1024) (i32.const 10))
      (call $log (i32.const 2) (i32.const 1040) (i32.const 14))
      (return (call $give (local.get $at) (local.get $len)))))
    ;; count: the number of calls that this instance has seen
    (if (i32.eq (local.get $op) (i32.const 0x63)) (then
      (global.set $calls (i32.add (global.get $calls) (i32.const 1)))
      (i32.store8 (i32.const 1081) (i32.add (i32.const 0x30) (global.get $calls)))
      (return (call $give (i32.const 1072) (i32.const 11)))))
    ;; fail
    (if (i32.eq (local.get $op) (i32.const 0x66)) (then (call $fail (i32.const 1100) (i32.const 13))))
    ;; trap
    (if (i32.eq (local.get $op) (i32.const 0x74)) (then (call $panicking_function)))
    ;; deep recursion
    (if (i32.eq (local.get $op) (i32.const 0x64)) (then (drop (call $deeper (i32.const 0)))))
    ;; forever
    (if (i32.eq (local.get $op) (i32.const 0x77)) (then (loop $again (br $again))))
    ;; memory bomb, which gives up when it gets no more
    (if (i32.eq (local.get $op) (i32.const 0x6d)) (then
      (loop $more (br_if $more (i32.ne (memory.grow (i32.const 64)) (i32.const -1))))
      (unreachable)))
    ;; number: JSON, but no object
    (if (i32.eq (local.get $op) (i32.const 0x6e)) (then (return (call $give (i32.const 1120) (i32.const 1)))))
    ;; outside: an answer that is not in the memory
    (if (i32.eq (local.get $op) (i32.const 0x6f)) (then (return (call $give (i32.const -16) (i32.const 100)))))
    ;; big: 100,000 letters of JSON
    (if (i32.eq (local.get $op) (i32.const 0x62)) (then
      (memory.copy (i32.const 20000) (i32.const 1130) (i32.const 8))
      (memory.fill (i32.const 20008) (i32.const 0x78) (i32.const 100000))
      (i32.store8 (i32.const 120008) (i32.const 0x22))
      (i32.store8 (i32.const 120009) (i32.const 0x7d))
      (return (call $give (i32.const 20000) (i32.const 100010)))))
    ;; flood: lines without end, as many as the number of loops
    (if (i32.eq (local.get $op) (i32.const 0x46)) (then
      (local.set $op (i32.const 0))
      (loop $again
        (call $log (i32.const 1) (i32.const 1024) (i32.const 10))
        (local.set $op (i32.add (local.get $op) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $op) (i32.const 1000000))))
      (return (call $give (local.get $at) (local.get $len)))))
    (call $give (i32.const 0) (i32.const 0))))
