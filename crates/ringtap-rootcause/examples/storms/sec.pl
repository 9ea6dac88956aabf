# SEC by the time that events carry, with a topology to look things up in: perl sec.pl MAP SEC ARGUMENTS…
#
# SEC reads the host's clock in whole seconds; here each line sets it, so a storm of two minutes takes no two minutes.
use strict;
use warnings;

our ($clock, $rooted) = (0, -1000);
our (%node, %port, %between, %degree, %feeds, %card, %card_of, %sessions, %heard);
my (%said, %link, %dead, %lost, %down_card);

BEGIN { *CORE::GLOBAL::time = sub () { $main::clock } }

open my $map, '<', shift @ARGV or die "the map: $!";
while (<$map>) {
    chomp;
    my ($kind, @is) = split / /;
    if ($kind eq 'address') { $node{$is[0]} = $is[1] }
    elsif ($kind eq 'link') {
        my ($name, $a, $i, $b, $j) = @is;
        $link{$name} = [$a, $b, $i, $j];
        $port{"$a:$i"} = $port{"$b:$j"} = $name;
        $between{"$a $b"} = $between{"$b $a"} = $name;
        $degree{$a}++;
        $degree{$b}++;
    }
    elsif ($kind eq 'feed') { push @{ $feeds{$is[0]} }, $is[1] }
    elsif ($kind eq 'card') {
        my ($at, $name, $entity, @ports) = @is;
        $card{"$at:$entity"} = "$at/$name";
        $card_of{"$at:$_"} = "$at/$name" for @ports;
    }
    elsif ($kind eq 'session') { $sessions{$is[0]}{$is[1]} = $sessions{$is[1]}{$is[0]} = 1 }
}

sub words { my @words = split / /, $_[0]; return @words == 5 && $words[0] =~ /^\d/ ? @words : () }

sub speaker { my (undef, $who) = words($_[0]) or return undef; return $node{$who} }

# A raw line as an event: DOWN, UP and LOST with who says it, the link and the other end.
sub event_of {
    my (undef, $who, $condition, $object, $what) = words($_[0]) or return undef;
    my $at = $node{$who} or return undef;
    if ($condition eq 'linkDown') {
        my $link = $port{"$at:$object"} or return undef;
        my ($a, $b) = @{ $link{$link} };
        return ($what eq 'clear' ? 'UP' : 'DOWN') . " $at $link " . ($a eq $at ? $b : $a);
    }
    return undef if $what eq 'clear';
    if ($condition eq 'ospfNbrStateChange') {
        my $peer = $node{ $object =~ s/\.0$//r } or return undef;
        my $link = $between{"$at $peer"} or return undef;
        return "LOST $at $link $peer";
    }
    if ($condition eq 'bgpBackwardTransition') { return $node{$object} ? "BGP $at $node{$object}" : undef }
    if ($condition eq 'entStateOperDisabled') {
        my $card = $card{"$at:$object"} or return undef;
        $down_card{$card} = 1;
        return "CARD $card";
    }
    return undef;
}

sub lost { my ($who, $link, $peer) = @_; $said{$link}{$who} = 1; $lost{$peer}{$link} = 1 }

sub judge {
    my ($name) = @_;
    my ($a, $b, $i, $j) = @{ $link{$name} };
    return undef if grep { $card_of{$_} && $down_card{ $card_of{$_} } } "$a:$i", "$b:$j";
    for my $silent ($a, $b) {
        next if $heard{$silent};
        # All that is joined to it lost it, or nobody else can be heard.
        my $either = keys %{ $lost{$silent} } == 1 ? $name : '-';
        my $feed = $feeds{$silent} ? $feeds{$silent}[0] : "-$silent";
        return "DEAD $silent $feed $either";
    }
    return "ROOT link:$name";
}

sub dead { my ($node, $feed, $link) = @_; $dead{$feed}{$node} = $link }

sub judge_feed {
    my ($feed) = @_;
    my %of = %{ delete $dead{$feed} };
    return "ROOT power:$feed" if keys %of > 1;
    my ($node, $link) = %of;
    return "ROOT node:$node" . ($link eq '-' ? '' : " link:$link");
}

my %down;
sub session { my ($a, $b) = @_; $down{$a}{$b} = $down{$b}{$a} = 1 }

sub judge_bgp {
    my %now = %down;
    %down = ();
    return undef if $clock - $rooted < 120;
    for my $at (sort keys %now) {
        my $all = keys %{ $sessions{$at} // {} };
        return "ROOT process:$at/bgp" if $all > 1 && $all == keys %{ $now{$at} };
    }
    return undef;
}

my $sec = shift @ARGV;
do $sec or die "$sec: " . ($@ || $!);
