;; Answers with what it reads from a file: the call's body is a path below the first folder that it was given. When a file cannot be
;; opened it answers {"errno":NN} with two digits. A path that begins with `!` is opened for writing, to be created.
(module
    (import "wasi_snapshot_preview1" "path_open"
        (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 16) "{\"errno\":00}")
    (func (export "flint_alloc") (param i32) (result i32) (i32.const 1024))
    (func (export "flint_call") (param $at i32) (param $len i32) (result i64)
        (local $flags i32) (local $rights i64) (local $errno i32)
        (local.set $rights (i64.const 2))
        ;; Quotes around the path are JSON's.
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (local.set $len (i32.sub (local.get $len) (i32.const 2)))
        (if (i32.eq (i32.load8_u (local.get $at)) (i32.const 0x21)) (then
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (local.set $len (i32.sub (local.get $len) (i32.const 1)))
            (local.set $flags (i32.const 1))
            (local.set $rights (i64.const 64))))
        (local.set $errno (call $path_open
            (i32.const 3) (i32.const 1) (local.get $at) (local.get $len) (local.get $flags)
            (local.get $rights) (local.get $rights) (i32.const 0) (i32.const 64)))
        (if (local.get $errno) (then
            (i32.store8 (i32.const 25) (i32.add (i32.const 48) (i32.div_u (local.get $errno) (i32.const 10))))
            (i32.store8 (i32.const 26) (i32.add (i32.const 48) (i32.rem_u (local.get $errno) (i32.const 10))))
            ;; JSON has no leading zeros.
            (if (i32.lt_u (local.get $errno) (i32.const 10)) (then (i32.store8 (i32.const 25) (i32.const 32))))
            (return (i64.const 0x100000000c))))
        (i32.store (i32.const 72) (i32.const 8192))
        (i32.store (i32.const 76) (i32.const 8192))
        (drop (call $fd_read (i32.load (i32.const 64)) (i32.const 72) (i32.const 1) (i32.const 80)))
        (i64.or (i64.const 0x200000000000) (i64.extend_i32_u (i32.load (i32.const 80))))))
