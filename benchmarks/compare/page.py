"""stub"""
def write(*a): pass
