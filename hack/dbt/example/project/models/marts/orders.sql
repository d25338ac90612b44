with payments as (
    select order_id, sum(amount) as amount
    from {{ ref('stg_payments') }}
    group by order_id
)

select
    orders.order_id,
    orders.customer_id,
    orders.status,
    orders.ordered_at,
    coalesce(payments.amount, 0) as amount
from {{ ref('stg_orders') }} as orders
left join payments on payments.order_id = orders.order_id
