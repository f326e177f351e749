<?php
// A shop's webhook and a form in one file: each paid order is a sale of the link that brought it, each form a lead.
//
//     WEBHOOK_SECRET=... CLICKCURVE_URL=http://127.0.0.1:8080 php -S 127.0.0.1:9000 examples/shop/shop.php
//
// The order's number is the id of the event, so a webhook that is sent three times counts once. It is answered with
// success when the server has counted it; until then the shop sends it again.

declare(strict_types=1);

const WITHIN_S = 5;
const FORM = '<!DOCTYPE html><meta charset="utf-8"><title>Ask us</title><form method="post">
<input type="hidden" name="via" value="%s"><input type="hidden" name="id" value="%s">
<input name="name" placeholder="Your name"><button>Send</button></form>';

/** Reports a hit; whether the server has counted it, now or before. What it refuses is logged: sent again, it is refused again. */
function counted(array $hit): bool
{
    $headers = ['Content-Type: application/json', 'Connection: close'];
    if (getenv('CLICKCURVE_TOKEN')) {
        $headers[] = 'Authorization: Bearer ' . getenv('CLICKCURVE_TOKEN');
    }
    $content = json_encode($hit, JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR);
    $request = ['method' => 'POST', 'header' => $headers, 'content' => $content, 'ignore_errors' => true];
    $context = stream_context_create(['http' => $request + ['timeout' => WITHIN_S, 'follow_location' => 0]]);
    $answer = @file_get_contents((getenv('CLICKCURVE_URL') ?: 'http://127.0.0.1:8080') . '/v1/hits', false, $context);
    $status = (int) explode(' ', $http_response_header[0] ?? ' 0')[1];
    if ($status !== 200) {
        error_log("clickcurve: not counted: status $status " . substr((string) $answer, 0, 500));
    }
    return in_array($status, [200, 422], true);
}

/** Whether the shop has sent a body. */
function is_signed(string $body): bool
{
    $secret = getenv('WEBHOOK_SECRET');
    return $secret && hash_equals(hash_hmac('sha256', $body, $secret), $_SERVER['HTTP_X_SHOP_SIGNATURE'] ?? '');
}

/** An order as a hit: the link's key, the amount in the smallest unit, the id under which it counts once; null: no order. */
function order(string $body): ?array
{
    $told = json_decode($body, true);
    if (!is_string($told['via'] ?? null) || !is_int($told['id'] ?? null) || !is_numeric($told['total'] ?? null)) {
        return null;
    }
    $value = (int) round($told['total'] * 100);
    return ['key' => $told['via'], 'event' => 'sale', 'value' => $value, 'id' => "order-{$told['id']}"];
}

function sold(string $body): int
{
    if (!is_signed($body)) {
        return 401;
    }
    $hit = order($body);
    if ($hit === null) {
        return 400;
    }
    return counted($hit) ? 204 : 502;
}

header('Content-Type: text/html; charset=utf-8');
switch ($_SERVER['REQUEST_METHOD'] . ' ' . parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH)) {
    case 'POST /webhook':
        http_response_code(sold(file_get_contents('php://input')));
        break;
    case 'GET /form':
        printf(FORM, htmlspecialchars((string) ($_GET['via'] ?? '')), bin2hex(random_bytes(8)));
        break;
    case 'POST /form':
        if (is_string($_POST['via'] ?? null) && is_string($_POST['id'] ?? null)) {
            $agent = $_SERVER['HTTP_USER_AGENT'] ?? ''; // tells a lead of a bot
            counted(['key' => $_POST['via'], 'event' => 'lead', 'id' => "form-{$_POST['id']}", 'ua' => $agent]);
        }
        echo 'Thank you.';
        break;
    default:
        http_response_code(404);
}
