select order_id, 1 as line, 1.0 as unit_price, 2 as quantity from {{ ref('orders') }}
