;; A WASI preview 1 program. The first letter of its input chooses what is done:
;;   x  exits with code 7 after a line of stderr         r  prints 16 random bytes as they are
;;   c  reads all of its input and writes it out          s  writes 4 MiB
;;   h  tries to open /etc/passwd and prints the error    {  answers with its input
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 4)
  (data (i32.const 256) "it cannot go on\n")
  (data (i32.const 288) "etc/passwd")

  (func $put (param $fd i32) (param $at i32) (param $len i32)
    (local $written i32)
    (loop $rest
      (i32.store (i32.const 0) (local.get $at))
      (i32.store (i32.const 4) (local.get $len))
      (if (call $write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)) (then (call $exit (i32.const 3))))
      (local.set $written (i32.load (i32.const 8)))
      (local.set $at (i32.add (local.get $at) (local.get $written)))
      (local.set $len (i32.sub (local.get $len) (local.get $written)))
      (br_if $rest (local.get $len))))

  (func $get (result i32)
    (i32.store (i32.const 0) (i32.const 65536))
    (i32.store (i32.const 4) (i32.const 65536))
    (if (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)) (then (call $exit (i32.const 4))))
    (i32.load (i32.const 8)))

  (func $_start (export "_start")
    (local $len i32) (local $op i32) (local $n i32)
    (local.set $len (call $get))
    (local.set $op (i32.load8_u (i32.const 65536)))
    (if (i32.eq (local.get $op) (i32.const 0x78)) (then
      (call $put (i32.const 2) (i32.const 256) (i32.const 16))
      (call $exit (i32.const 7))))
    (if (i32.eq (local.get $op) (i32.const 0x72)) (then
      (drop (call $random (i32.const 1024) (i32.const 16)))
      (call $put (i32.const 1) (i32.const 1024) (i32.const 16))
      (call $exit (i32.const 0))))
    (if (i32.eq (local.get $op) (i32.const 0x73)) (then
      (loop $more
        (memory.fill (i32.const 131072) (local.get $n) (i32.const 65536))
        (call $put (i32.const 1) (i32.const 131072) (i32.const 65536))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $n) (i32.const 64))))
      (return)))
    (if (i32.eq (local.get $op) (i32.const 0x68)) (then
      ;; Descriptors 3 and up are what was preopened: nothing.
      (i32.store8 (i32.const 1024) (i32.add (i32.const 0x30) (i32.ne (i32.const 0)
        (call $open (i32.const 3) (i32.const 0) (i32.const 288) (i32.const 10) (i32.const 0)
          (i64.const 2) (i64.const 2) (i32.const 0) (i32.const 12)))))
      (call $put (i32.const 1) (i32.const 1024) (i32.const 1))
      (return)))
    (loop $more
      (if (local.get $len) (then
        (call $put (i32.const 1) (i32.const 65536) (local.get $len))
        (local.set $len (call $get))
        (br $more))))))
