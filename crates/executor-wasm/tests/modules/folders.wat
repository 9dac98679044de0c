;; A command that makes its first folder durable, lists it twenty times and keeps none of the lists, lists it until it may not, and then opens the file "a" in it until it may not, and keeps all of it. It ends well when
;; it is told so each time, after as many lists as a guest may have; otherwise it traps in $unbounded.
(component $folders
  (import "wasi:filesystem/types@0.2.0" (instance $types
    (export "descriptor" (type $descriptor (sub resource)))
    (export "directory-entry-stream" (type $list (sub resource)))
    (type $code' (enum
      "access" "would-block" "already" "bad-descriptor" "busy" "deadlock" "quota" "exist" "file-too-large" "illegal-byte-sequence" "in-progress" "interrupted"
      "invalid" "io" "is-directory" "loop" "too-many-links" "message-size" "name-too-long" "no-device" "no-entry" "no-lock" "insufficient-memory" "insufficient-space"
      "not-directory" "not-empty" "not-recoverable" "unsupported" "no-tty" "no-such-device" "overflow" "not-permitted" "pipe" "read-only" "invalid-seek" "text-file-busy"
      "cross-device"))
    (export "error-code" (type $code (eq $code')))
    (type $how' (flags "symlink-follow"))
    (export "path-flags" (type $how (eq $how')))
    (type $open' (flags "create" "directory" "exclusive" "truncate"))
    (export "open-flags" (type $open (eq $open')))
    (type $flags' (flags "read" "write" "file-integrity-sync" "data-integrity-sync" "requested-write-sync" "mutate-directory"))
    (export "descriptor-flags" (type $flags (eq $flags')))
    (export "[method]descriptor.sync" (func
      (param "self" (borrow $descriptor)) (result (result (error $code)))))
    (export "[method]descriptor.read-directory" (func
      (param "self" (borrow $descriptor)) (result (result (own $list) (error $code)))))
    (export "[method]descriptor.open-at" (func
      (param "self" (borrow $descriptor)) (param "path-flags" $how) (param "path" string) (param "open-flags" $open) (param "flags" $flags)
      (result (result (own $descriptor) (error $code)))))))
  (alias export $types "descriptor" (type $descriptor))
  (alias export $types "directory-entry-stream" (type $list))
  (import "wasi:filesystem/preopens@0.2.0" (instance $preopens
    (alias outer $folders $descriptor (type $descriptor'))
    (export "descriptor" (type $one (eq $descriptor')))
    (export "get-directories" (func (result (list (tuple (own $one) string)))))))

  (core module $libc
    (memory (export "memory") 1)
    (global $top (mut i32) (i32.const 4096))
    (func (export "realloc") (param i32 i32 i32) (param $size i32) (result i32)
      (global.set $top (i32.and (i32.add (global.get $top) (i32.const 15)) (i32.const -16)))
      (global.get $top)
      (global.set $top (i32.add (global.get $top) (local.get $size))))
    (data (i32.const 64) "a"))
  (core instance $libc (instantiate $libc))
  (core func $all (canon lower (func $preopens "get-directories") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
  (core func $sync (canon lower (func $types "[method]descriptor.sync") (memory (core memory $libc "memory"))))
  (core func $read (canon lower (func $types "[method]descriptor.read-directory") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
  (core func $drop (canon resource.drop $list))
  (core func $open (canon lower (func $types "[method]descriptor.open-at") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))

  (core module $main
    (import "libc" "memory" (memory 1))
    (import "host" "all" (func $all (param i32)))
    (import "host" "sync" (func $sync (param i32 i32)))
    (import "host" "read" (func $read (param i32 i32)))
    (import "host" "drop" (func $drop (param i32)))
    (import "host" "open" (func $open (param i32 i32 i32 i32 i32 i32 i32)))
    (func $unbounded unreachable)
    ;; Whether what was written at 32 is an error, which has to be this one.
    (func $refused (param $code i32) (result i32)
      (if (i32.eqz (i32.load8_u (i32.const 32))) (then (return (i32.const 0))))
      (if (i32.ne (i32.load8_u (i32.const 36)) (local.get $code)) (then unreachable))
      (i32.const 1))
    (func (export "run") (result i32) (local $folder i32) (local $n i32)
      (call $all (i32.const 16))
      (local.set $folder (i32.load (i32.load (i32.const 16))))
      (call $sync (local.get $folder) (i32.const 32))
      (if (i32.load8_u (i32.const 32)) (then unreachable))
      (loop $again
        (call $read (local.get $folder) (i32.const 32))
        (if (i32.load8_u (i32.const 32)) (then unreachable))
        (call $drop (i32.load (i32.const 36)))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $again (i32.lt_u (local.get $n) (i32.const 20))))
      (local.set $n (i32.const 0))
      (block $full
        (loop $more
          (call $read (local.get $folder) (i32.const 32))
          (br_if $full (call $refused (i32.const 22)))
          (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (br_if $more (i32.lt_u (local.get $n) (i32.const 100))))
        (call $unbounded))
      (if (i32.ne (local.get $n) (i32.const 16)) (then (call $unbounded)))
      (local.set $n (i32.const 0))
      (loop $more
        (call $open (local.get $folder) (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 32))
        (if (call $refused (i32.const 6)) (then (return (i32.const 0))))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $n) (i32.const 100))))
      (call $unbounded)
      (i32.const 1)))
  (core instance $main (instantiate $main
    (with "libc" (instance $libc))
    (with "host" (instance
      (export "all" (func $all))
      (export "sync" (func $sync))
      (export "read" (func $read))
      (export "drop" (func $drop))
      (export "open" (func $open))
    ))))
  (func $run (result (result)) (canon lift (core func $main "run")))
  (instance $command (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $command)))
