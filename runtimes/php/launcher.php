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

/** Makes the code's folder the working directory and its packages loadable; returns the file that begins it. */
function prepare(string $code): string
{
    $file = entry_file($code);
    chdir(dirname($file));
    if (is_dir($code) && is_file("$code/vendor/autoload.php")) {
        require_once "$code/vendor/autoload.php";
    }
    return $file;
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

/** The calls, one a line, and where their answers go. Neither the function nor the programs that it starts may read calls: their stdin is at end of file. */
function streams(): array
{
    static $streams = null;
    if ($streams === null) {
        $streams = ['calls' => fopen('php://fd/0', 'r'), 'answers' => fopen('php://fd/3', 'w')];
        fclose(STDIN);
        $streams['stdin'] = fopen('/dev/null', 'r');
    }
    return $streams;
}

function answer(string $line): void
{
    ['answers' => $answers] = streams();
    $line .= "\n";
    while ($line !== '') {
        $written = fwrite($answers, $line);
        if (!$written) {
            exit(0); // The server has gone.
        }
        $line = substr($line, $written);
    }
    fflush($answers);
}

/** Reports why the code does not load; returns the exit status. */
function failed(\Throwable $error): int
{
    fwrite(STDERR, described($error));
    answer(json_encode(['error' => $error->getMessage()], JSON_INVALID_UTF8_SUBSTITUTE));
    return 1;
}

function serve(string $function): int
{
    if (!is_callable($function)) {
        return failed(new \RuntimeException("the code has no function '$function'"));
    }
    if (getenv('__OW_WAIT_FOR_ACK') !== false) {
        answer('{"ok":true}');
    }
    $environment = [];
    $process = getmypid();
    ['calls' => $calls] = streams();
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
        answer($result);
    }
    return 0;
}

streams();
define('flint\MAIN', $argv[2] ?? 'main');
try {
    require_once prepare($argv[1]); // here and in no function: the variables at the top of the code are global ones
} catch (\Throwable $error) {
    exit(failed($error));
}
exit(serve(MAIN));
