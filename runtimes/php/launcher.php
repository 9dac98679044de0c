<?php
// Runs a PHP function as OpenWhisk's ActionLoop: a call is one JSON line on stdin, its answer one JSON line on descriptor 3, and what the
// function prints is its log. Arguments: the file or directory of its code, and its entry point (`main`, `Class::method`).

namespace flint;

/** Maximum nesting of arguments and results. */
const DEEPEST = 1000;

/** The file with which a directory of code begins. */
function entry_file(string $code): string
{
    if (!is_dir($code)) {
        return $code;
    }
    foreach (['index.php', 'main.php'] as $name) {
        if (is_file("$code/$name")) {
            return "$code/$name";
        }
    }
    throw new \RuntimeException('the archive has no index.php at its top');
}

/** Loads the code; returns the function to call. */
function load(string $code, string $main): callable
{
    $file = entry_file($code);
    chdir(dirname($file));
    if (is_dir($code) && is_file("$code/vendor/autoload.php")) {
        require_once "$code/vendor/autoload.php";
    }
    (static function (string $file): void {
        require_once $file;
    })($file);
    if (!is_callable($main)) {
        throw new \RuntimeException("the code has no function '$main'");
    }
    return $main;
}

/** Sets every string of the call except its arguments in the environment. */
function set_environment(array $call, array $before): array
{
    $now = [];
    foreach ($call as $key => $value) {
        if ($key !== 'value' && is_string($value) && !str_contains($value, "\0")) {
            $name = '__OW_' . strtoupper($key);
            putenv("$name=$value");
            $_ENV[$name] = $_SERVER[$name] = $value;
            $now[] = $name;
        }
    }
    foreach (array_diff($before, $now) as $gone) {
        putenv($gone);
        unset($_ENV[$gone], $_SERVER[$gone]);
    }
    return $now;
}

/** The answer's line. PHP does not distinguish an empty object from an empty list, so both become `{}`. */
function encode(mixed $result): string
{
    if ($result === null || $result === []) {
        return '{}';
    }
    return json_encode($result, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION, DEEPEST);
}

/** An error as PHP prints it, without the launcher's frames. */
function described(\Throwable $error): string
{
    $place = preg_quote(__FILE__, '/') . '\(\d+\): .*\n';
    $text = "$error";
    return (preg_replace("/^(#\d+) $place(#\d+ $place)*#\d+ \{main\}$/m", '$1 {main}', $text) ?? $text) . "\n";
}

function serve(string $code, string $main): int
{
    $answers = fopen('php://fd/3', 'w');
    // Neither the function nor the programs that it starts may read the calls: their stdin is at end of file.
    $calls = fopen('php://fd/0', 'r');
    fclose(STDIN);
    $nothing = fopen('/dev/null', 'r');
    $answer = static function (string $line) use ($answers): void {
        $line .= "\n";
        while ($line !== '') {
            $written = fwrite($answers, $line);
            if (!$written) {
                exit(0); // The server has gone.
            }
            $line = substr($line, $written);
        }
        fflush($answers);
    };
    try {
        $function = load($code, $main);
    } catch (\Throwable $error) {
        fwrite(STDERR, described($error));
        $answer(json_encode(['error' => $error->getMessage()], JSON_INVALID_UTF8_SUBSTITUTE));
        return 1;
    }
    if (getenv('__OW_WAIT_FOR_ACK') !== false) {
        $answer('{"ok":true}');
    }
    $environment = [];
    $process = getmypid();
    while (($line = fgets($calls)) !== false) {
        try {
            $call = json_decode($line, true, DEEPEST + 1, JSON_THROW_ON_ERROR | JSON_BIGINT_AS_STRING);
            $environment = set_environment($call, $environment);
            $result = $function($call['value'] ?? []);
            if (getmypid() !== $process) {
                return 0; // The function has forked: the answer is the parent's to give.
            }
            $result = encode($result);
        } catch (\Throwable $error) {
            fwrite(STDERR, described($error));
            if (getmypid() !== $process) {
                return 255;
            }
            $result = json_encode(['error' => $error->getMessage()], JSON_INVALID_UTF8_SUBSTITUTE);
        }
        while (ob_get_level() > 0 && @ob_end_flush()); // output that a call has left in a buffer belongs to it, not to the next call
        $answer($result);
    }
    return 0;
}

exit(serve($argv[1], $argv[2] ?? 'main'));
