;; A command that opens the bucket "b", adds 2 to the number at the key "n", and fails unless the sum is what wasi:config says at
;; "sum" (one digit). When it is refused the bucket it traps in $refused.
(component
    (import "wasi:keyvalue/store@0.2.0-draft" (instance $store
        (type $cases (variant (case "no-such-store") (case "access-denied") (case "other" string)))
        (export "error" (type $error (eq $cases)))
        (export "bucket" (type $bucket (sub resource)))
        (export "open" (func (param "identifier" string) (result (result (own $bucket) (error $error)))))))
    (alias export $store "error" (type $error))
    (alias export $store "bucket" (type $bucket))
    (import "wasi:keyvalue/atomics@0.2.0-draft" (instance $atomics
        (alias outer 1 $error (type $outer_error))
        (alias outer 1 $bucket (type $outer_bucket))
        (export "error" (type $error (eq $outer_error)))
        (export "bucket" (type $bucket (eq $outer_bucket)))
        (export "increment" (func
            (param "bucket" (borrow $bucket)) (param "key" string) (param "delta" u64) (result (result u64 (error $error)))))))
    (import "wasi:config/store@0.2.0-rc.1" (instance $config
        (type $cases (variant (case "upstream" string) (case "io" string)))
        (export "error" (type $error (eq $cases)))
        (export "get" (func (param "key" string) (result (result (option string) (error $error)))))))

    (core module $libc
        (memory (export "memory") 1)
        (global $top (mut i32) (i32.const 4096))
        (func (export "realloc") (param i32 i32 i32) (param $size i32) (result i32)
            (global.set $top (i32.and (i32.add (global.get $top) (i32.const 15)) (i32.const -16)))
            (global.get $top)
            (global.set $top (i32.add (global.get $top) (local.get $size))))
        (data (i32.const 16) "b") (data (i32.const 17) "n") (data (i32.const 18) "sum"))
    (core instance $libc (instantiate $libc))
    (core func $open (canon lower (func $store "open") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
    (core func $increment (canon lower (func $atomics "increment") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
    (core func $get (canon lower (func $config "get") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))

    (core module $main
        (import "libc" "memory" (memory 1))
        (import "host" "open" (func $open (param i32 i32 i32)))
        (import "host" "increment" (func $increment (param i32 i32 i32 i64 i32)))
        (import "host" "get" (func $get (param i32 i32 i32)))
        (func $refused (if (i32.eq (i32.load8_u (i32.const 68)) (i32.const 1)) (then unreachable)))
        (func (export "run") (result i32)
            (call $open (i32.const 16) (i32.const 1) (i32.const 64))
            (if (i32.load8_u (i32.const 64)) (then (call $refused) (return (i32.const 1))))
            (call $increment (i32.load (i32.const 68)) (i32.const 17) (i32.const 1) (i64.const 2) (i32.const 96))
            (if (i32.load8_u (i32.const 96)) (then (return (i32.const 1))))
            (call $get (i32.const 18) (i32.const 3) (i32.const 128))
            ;; An error, or nothing there.
            (if (i32.or (i32.load8_u (i32.const 128)) (i32.eqz (i32.load8_u (i32.const 132)))) (then (return (i32.const 1))))
            (i64.ne
                (i64.load (i32.const 104))
                (i64.sub (i64.load8_u (i32.load (i32.const 136))) (i64.const 48)))))
    (core instance $main (instantiate $main
        (with "libc" (instance $libc))
        (with "host" (instance
            (export "open" (func $open)) (export "increment" (func $increment)) (export "get" (func $get))))))
    (func $run (result (result)) (canon lift (core func $main "run")))
    (instance $command (export "run" (func $run)))
    (export "wasi:cli/run@0.2.0" (instance $command)))
