"""The processes that others are made of: a zygote forks them, a spare becomes one.

`python -I -m lembasd.zygote --fd N --kind worker|pty [--spare]`, exec'd by the hub with one end of a socketpair as N.
Both have everything imported that their children can ever need, so that a child never reads the files of another
version. They have no loop and one thread.
"""
