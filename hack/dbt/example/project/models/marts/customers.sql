with orders as (
    select
        customer_id,
        min(ordered_at) as first_order_at,
        count(*) as number_of_orders,
        count(*) filter (where status = 'returned') as returns,
        sum(amount) as lifetime_value
    from {{ ref('orders') }}
    group by customer_id
)

select
    customers.customer_id,
    customers.name,
    customers.country,
    orders.first_order_at,
    coalesce(orders.number_of_orders, 0) as number_of_orders,
    coalesce(orders.returns, 0) as returns,
    coalesce(orders.lifetime_value, 0) as lifetime_value
from {{ ref('stg_customers') }} as customers
left join orders on orders.customer_id = customers.customer_id
