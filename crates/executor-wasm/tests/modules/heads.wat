;; A command that keeps fields, and texts of requests, until it gets no more of them. It ends well when it is stopped in time, and traps in $unbounded
;; otherwise.
(component $heads
  (import "wasi:http/types@0.2.0" (instance $types
    (export "fields" (type $fields (sub resource)))
    (export "outgoing-request" (type $request (sub resource)))
    (type $header-error' (variant (case "invalid-syntax") (case "forbidden") (case "immutable")))
    (export "header-error" (type $header-error (eq $header-error')))
    (type $method' (variant
      (case "get") (case "head") (case "post") (case "put") (case "delete") (case "connect") (case "options") (case "trace") (case "patch")
      (case "other" string)))
    (export "method" (type $method (eq $method')))
    (export "[constructor]fields" (func (result (own $fields))))
    (export "[method]fields.append" (func
      (param "self" (borrow $fields)) (param "name" string) (param "value" (list u8)) (result (result (error $header-error)))))
    (export "[constructor]outgoing-request" (func (param "headers" (own $fields)) (result (own $request))))
    (export "[method]outgoing-request.set-method" (func
      (param "self" (borrow $request)) (param "method" $method) (result (result))))
    (export "[method]outgoing-request.set-authority" (func
      (param "self" (borrow $request)) (param "authority" (option string)) (result (result))))
    (export "[method]outgoing-request.set-path-with-query" (func
      (param "self" (borrow $request)) (param "path-with-query" (option string)) (result (result))))))

  (core module $libc
    (memory (export "memory") 32)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable))
  (core instance $libc (instantiate $libc))
  (core func $fields (canon lower (func $types "[constructor]fields")))
  (core func $append (canon lower (func $types "[method]fields.append") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
  (core func $new (canon lower (func $types "[constructor]outgoing-request")))
  (core func $set_method (canon lower (func $types "[method]outgoing-request.set-method") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
  (core func $set_authority (canon lower (func $types "[method]outgoing-request.set-authority") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))
  (core func $set_path (canon lower (func $types "[method]outgoing-request.set-path-with-query") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))))

  (core module $main
    (import "libc" "memory" (memory 32))
    (import "host" "fields" (func $fields (result i32)))
    (import "host" "append" (func $append (param i32 i32 i32 i32 i32 i32)))
    (import "host" "new" (func $new (param i32) (result i32)))
    (import "host" "set_method" (func $set_method (param i32 i32 i32 i32) (result i32)))
    (import "host" "set_authority" (func $set_authority (param i32 i32 i32 i32) (result i32)))
    (import "host" "set_path" (func $set_path (param i32 i32 i32 i32) (result i32)))
    (func $unbounded unreachable)
    ;; A method and an authority of a megabyte are refused, usual ones are taken.
    (func $names (local $request i32)
      (local.set $request (call $new (call $fields)))
      (if (i32.eqz (call $set_method (local.get $request) (i32.const 9) (i32.const 65537) (i32.const 1048576))) (then (call $unbounded)))
      (if (i32.eqz (call $set_authority (local.get $request) (i32.const 1) (i32.const 65537) (i32.const 1048576))) (then (call $unbounded)))
      (if (call $set_method (local.get $request) (i32.const 9) (i32.const 65537) (i32.const 10)) (then unreachable))
      (if (call $set_authority (local.get $request) (i32.const 1) (i32.const 65537) (i32.const 10)) (then unreachable)))
    ;; Requests with long paths, of 60 kB each.
    (func $paths (local $n i32)
      (loop $more
        (if (call $set_path (call $new (call $fields)) (i32.const 1) (i32.const 65536) (i32.const 60000)) (then (return)))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $n) (i32.const 200))))
      (call $unbounded))
    ;; Fields of 60 kB each.
    (func $values (local $n i32)
      (loop $more
        (call $append (call $fields) (i32.const 65537) (i32.const 6) (i32.const 65537) (i32.const 60000) (i32.const 16))
        (if (i32.load8_u (i32.const 16)) (then (return)))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))
        (br_if $more (i32.lt_u (local.get $n) (i32.const 200))))
      (call $unbounded))
    (func (export "run") (result i32)
      (memory.fill (i32.const 65536) (i32.const 0x61) (i32.const 1048600))
      (i32.store8 (i32.const 65536) (i32.const 0x2f))
      (call $names)
      (call $values)
      (call $paths)
      (i32.const 0)))
  (core instance $main (instantiate $main
    (with "libc" (instance $libc))
    (with "host" (instance
      (export "fields" (func $fields))
      (export "append" (func $append))
      (export "new" (func $new))
      (export "set_method" (func $set_method))
      (export "set_authority" (func $set_authority))
      (export "set_path" (func $set_path))
    ))))
  (func $run (result (result)) (canon lift (core func $main "run")))
  (instance $command (export "run" (func $run)))
  (export "wasi:cli/run@0.2.0" (instance $command)))
