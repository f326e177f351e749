<?php
/*
Plugin Name: Clickcurve
Description: Reports each redirect to a Clickcurve server, after the visitor has been answered, and shows its curve in the statistics.
Version: 0.3.0
*/

// Settings, in user/config.php: CLICKCURVE_URL; CLICKCURVE_TOKEN with the scope `write`; CLICKCURVE_SPOOL, a file that the
// web server may write, outside of what it serves. What cannot be sent waits there, without the visitor's address.
// CLICKCURVE_READ_TOKEN with the scope `read`, for the curve in the statistics; it does not reach the browser.

if (!defined('YOURLS_ABSPATH')) {
    die();
}

const CLICKCURVE_WITHIN_S = 2;
const CLICKCURVE_SPOOL_BYTES = 16 * 1024 * 1024;
const CLICKCURVE_TELL_EVERY_S = 60;
const CLICKCURVE_LOST_AFTER_S = 60; // a process that took the file to send it is dead by then
const CLICKCURVE_SHOWN_DAYS = 90;

yourls_add_action('redirect_shorturl', 'clickcurve_redirect');
yourls_add_action('pre_yourls_info_stats', 'clickcurve_show');

/** YOURLS calls this with [address, keyword] before it answers the visitor. */
function clickcurve_redirect(array $redirect): void
{
    if (($_SERVER['REQUEST_METHOD'] ?? 'GET') !== 'GET') {
        return;
    }
    $hit = [
        'key' => (string) $redirect[1],
        'ts' => time(),
        'id' => bin2hex(random_bytes(16)), // so that a repeat counts once
        'ua' => clickcurve_fit($_SERVER['HTTP_USER_AGENT'] ?? '', 2048),
        'ref' => clickcurve_fit($_SERVER['HTTP_REFERER'] ?? '', 2048),
        'lang' => clickcurve_fit($_SERVER['HTTP_ACCEPT_LANGUAGE'] ?? '', 1024),
        'ip' => filter_var(yourls_get_IP(), FILTER_VALIDATE_IP) ?: '',
    ];
    if (clickcurve_is_ahead()) {
        $hit['bot'] = true;
    }
    register_shutdown_function('clickcurve_report', array_filter($hit, fn ($value) => $value !== ''));
}

/** Whether the browser fetches the link before anybody has clicked on it, as it says itself. */
function clickcurve_is_ahead(): bool
{
    foreach (['HTTP_SEC_PURPOSE', 'HTTP_PURPOSE', 'HTTP_X_PURPOSE', 'HTTP_X_MOZ'] as $name) {
        if (preg_match('/^\s*(prefetch|prerender|preview)\b/i', (string) ($_SERVER[$name] ?? ''))) {
            return true;
        }
    }
    return false;
}

/** As much of a text as the server takes, without control characters. */
function clickcurve_fit(string $text, int $bytes): string
{
    return trim(preg_replace('/[\x00-\x1f\x7f]+|\xc2[\x80-\x9f]/', ' ', substr($text, 0, $bytes)));
}

/** One hit as a line of NDJSON; bytes that are no UTF-8 are left out. */
function clickcurve_line(array $hit): string
{
    return json_encode($hit, JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_IGNORE | JSON_THROW_ON_ERROR) . "\n";
}

/** Sends the visitor away, then one hit to the server, and then what waited for it. */
function clickcurve_report(array $hit): void
{
    clickcurve_answer_visitor();
    if (!clickcurve_post(clickcurve_line($hit))) {
        unset($hit['ip']); // an address of a person reaches no disk
        clickcurve_keep(clickcurve_line($hit));
        return;
    }
    $waited = clickcurve_take();
    if ($waited !== '') {
        if (!clickcurve_post($waited)) {
            clickcurve_keep($waited);
        }
        unlink(CLICKCURVE_SPOOL . '.sending');
    }
}

function clickcurve_answer_visitor(): void
{
    if (function_exists('fastcgi_finish_request')) {
        fastcgi_finish_request();
        return;
    }
    ignore_user_abort(true);
    if (!headers_sent()) {
        header('Content-Length: 0');
        header('Connection: close');
    }
    while (ob_get_level() > 0) {
        ob_end_clean();
    }
    flush();
}

/** Posts hits, one a line; whether the server has answered. What it refuses is logged, and not sent again. */
function clickcurve_post(string $lines): bool
{
    $headers = ['Content-Type: application/x-ndjson', 'Connection: close'];
    if (defined('CLICKCURVE_TOKEN')) {
        $headers[] = 'Authorization: Bearer ' . CLICKCURVE_TOKEN;
    }
    $request = ['method' => 'POST', 'header' => $headers, 'content' => $lines, 'ignore_errors' => true];
    $context = stream_context_create(['http' => $request + ['timeout' => CLICKCURVE_WITHIN_S, 'follow_location' => 0]]);
    $answer = @file_get_contents(rtrim(CLICKCURVE_URL, '/') . '/v1/hits', false, $context);
    $status = (int) explode(' ', $http_response_header[0] ?? ' 0')[1];
    if ($answer === false || !in_array($status, [200, 400, 413, 415, 422], true)) {
        error_log("clickcurve: hits wait: status $status");
        return false;
    }
    $receipt = json_decode($answer, true);
    if ($status !== 200 || ($receipt['refused'] ?? 0) > 0) {
        error_log('clickcurve: hits were refused: ' . substr($answer, 0, 500));
    }
    if ((int) ($receipt['adjusted'] ?? 0) > 0) {
        clickcurve_tell_adjusted((int) $receipt['adjusted'], $receipt['items'] ?? []);
    }
    return true;
}

/** Logs hits that count without a word of theirs: with a spool file at most once a minute, and how many since then. */
function clickcurve_tell_adjusted(int $hits, array $items): void
{
    $kept = defined('CLICKCURVE_SPOOL') ? @fopen(CLICKCURVE_SPOOL . '.adjusted', 'c+') : false;
    if ($kept !== false) {
        flock($kept, LOCK_EX);
        [$before, $told_at] = array_map('intval', explode(' ', stream_get_contents($kept) . ' 0 0'));
        $hits += $before;
        $is_due = time() - $told_at >= CLICKCURVE_TELL_EVERY_S;
        rewind($kept);
        ftruncate($kept, 0);
        fwrite($kept, $is_due ? '0 ' . time() . ' ' : "$hits $told_at ");
        fclose($kept);
        if (!$is_due) {
            return;
        }
    }
    $lost = array_filter($items, fn ($item) => ($item['status'] ?? '') === 'adjusted');
    $reasons = array_slice(array_unique(array_column($lost, 'reason')), 0, 3);
    error_log("clickcurve: $hits hits counted without a word of theirs: " . implode('; ', $reasons));
}

function clickcurve_keep(string $lines): void
{
    if (!defined('CLICKCURVE_SPOOL')) {
        error_log('clickcurve: a hit is lost; CLICKCURVE_SPOOL would keep it');
    } elseif (is_file(CLICKCURVE_SPOOL) && filesize(CLICKCURVE_SPOOL) > CLICKCURVE_SPOOL_BYTES) {
        error_log('clickcurve: a hit is lost: ' . CLICKCURVE_SPOOL . ' is full');
    } elseif (file_put_contents(CLICKCURVE_SPOOL, $lines, FILE_APPEND | LOCK_EX) !== strlen($lines)) {
        error_log('clickcurve: a hit is lost: ' . CLICKCURVE_SPOOL . ' cannot be written');
    }
}

/** Takes what waits; of several processes one gets it. Hits have ids, so what a dead one had sent counts once. */
function clickcurve_take(): string
{
    if (!defined('CLICKCURVE_SPOOL')) {
        return '';
    }
    $sending = CLICKCURVE_SPOOL . '.sending';
    clearstatcache();
    if (is_file($sending)) {
        if (time() - filemtime($sending) < CLICKCURVE_LOST_AFTER_S || !touch($sending)) {
            return '';
        }
    } elseif (!is_file(CLICKCURVE_SPOOL) || !@rename(CLICKCURVE_SPOOL, $sending)) {
        return '';
    } else {
        touch($sending);
    }
    return (string) file_get_contents($sending);
}

/** YOURLS calls this with [keyword], or the keyword itself, above its own statistics of a link. */
function clickcurve_show($keyword): void
{
    $link = '/v1/links/' . rawurlencode((string) (is_array($keyword) ? $keyword[0] : $keyword));
    $total = json_decode((string) clickcurve_get($link . '/total'), true);
    $curve = clickcurve_get($link . '/curve.svg?w=800&h=240&last=' . CLICKCURVE_SHOWN_DAYS . 'd');
    echo "<h3>Clickcurve</h3>\n";
    if (!is_int($total['total'] ?? null) || $curve === null) {
        echo "<p>The server of Clickcurve does not answer.</p>\n";
        return;
    }
    // As a picture of its own, the curve runs no script and loads nothing.
    $picture = 'data:image/svg+xml;base64,' . base64_encode($curve);
    $text = 'Hits of people in the last ' . CLICKCURVE_SHOWN_DAYS . ' days';
    echo '<p><strong>' . $total['total'] . "</strong> hits of people in all.</p>\n";
    echo "<img src='$picture' width='800' height='240' alt='$text' title='$text'/>\n";
}

/** What the server answers to a question; null if it does not, or refuses. */
function clickcurve_get(string $path): ?string
{
    $headers = ['Connection: close'];
    if (defined('CLICKCURVE_READ_TOKEN')) {
        $headers[] = 'Authorization: Bearer ' . CLICKCURVE_READ_TOKEN;
    }
    $request = ['header' => $headers, 'timeout' => CLICKCURVE_WITHIN_S, 'follow_location' => 0, 'ignore_errors' => true];
    $context = stream_context_create(['http' => $request]);
    $answer = @file_get_contents(rtrim(CLICKCURVE_URL, '/') . $path, false, $context);
    $status = (int) explode(' ', $http_response_header[0] ?? ' 0')[1];
    return $answer === false || $status !== 200 ? null : $answer;
}
