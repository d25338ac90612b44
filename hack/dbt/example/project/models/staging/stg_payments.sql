select id as payment_id, order_id, method, {{ money.from_cents('amount_cents') }} as amount
from {{ source('shop', 'payments') }}
